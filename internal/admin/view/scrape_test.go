package view

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/node-dns/node-dns/internal/admin/control"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve runs a server for source on a loopback port until the test ends and returns its address.
func serve(t *testing.T, source MetricsSource) (address string) {
	t.Helper()
	source.Log = slog.New(slog.DiscardHandler)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- serveUntil(ctx, listener, MetricsHandler("nodedns", source)) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return listener.Addr().String()
}

func get(t *testing.T, url string) (code int, body string, err error) {
	t.Helper()
	client := http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get(url)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, string(text), err
}

// TestPanic proves that a panic ends only one request, is counted, and is not revealed to the
// client.
func TestPanic(t *testing.T) {
	panics := make(chan any, 2)
	address := serve(t, MetricsSource{
		Sample:   func() Sample { panic("secret") },
		Status:   func() control.Status { panic("secret") },
		Panicked: func(value any) { panics <- value },
	})
	code, body, err := get(t, "http://"+address+"/metrics")
	if err != nil || code != http.StatusInternalServerError || strings.Contains(body, "secret") || strings.Contains(body, "goroutine") {
		t.Errorf("/metrics: got %d %q %v", code, body, err)
	}
	if code, body, err = get(t, "http://"+address+"/ready"); err == nil {
		t.Errorf("/ready: got %d %q", code, body)
	}
	for range 2 {
		if value := <-panics; value != "secret" {
			t.Errorf("panicked with %v", value)
		}
	}
	if code, _, err = get(t, "http://"+address+"/health"); err != nil || code != http.StatusOK {
		t.Errorf("/health after that: got %d %v", code, err)
	}
}

// TestScrapesAreBounded proves that scrapes above the limit are refused and that the others
// succeed.
func TestScrapesAreBounded(t *testing.T) {
	inside, open := make(chan bool, 2*maxScrapes), make(chan bool)
	address := serve(t, MetricsSource{
		Sample: func() Sample {
			inside <- true
			<-open
			return Sample{}
		},
		Panicked: func(value any) { t.Error(value) },
	})
	codes := make(chan int, maxScrapes)
	for range maxScrapes {
		go func() {
			code, _, _ := get(t, "http://"+address+"/metrics")
			codes <- code
		}()
	}
	for range maxScrapes {
		<-inside
	}
	if code, _, err := get(t, "http://"+address+"/metrics"); code != http.StatusServiceUnavailable {
		t.Errorf("one scrape too many: got %d %v", code, err)
	}
	close(open)
	for range maxScrapes {
		if code := <-codes; code != http.StatusOK {
			t.Errorf("allowed scrape: got %d", code)
		}
	}
}

// TestSilentConnections proves that idle connections do not block other clients permanently.
func TestSilentConnections(t *testing.T) {
	address := serve(t, MetricsSource{Sample: func() Sample { return Sample{} }, Panicked: func(value any) { t.Error(value) }})
	for range maxScrapers {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	if code, _, err := get(t, "http://"+address+"/metrics"); err != nil || code != http.StatusOK {
		t.Errorf("got %d %v", code, err)
	}
}

package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/test/lab"
)

// TestListThenError: with -o json and yaml an error in the middle of a list is a separate document.
// The list used to stay open before the error, so the output was invalid JSON.
func TestListThenError(t *testing.T) {
	root := lab.ShortDir(t)
	listener, err := control.Listen(control.SocketPath(root))
	if err != nil {
		t.Fatal(err)
	}
	api := control.API{
		Search: func(context.Context, control.SearchQuestion) (control.Search, error) { return control.Search{}, nil },
		Query: func(_ context.Context, q control.Question) (control.Answer, error) {
			if q.Name == "bad." {
				return control.Answer{}, errors.New("out of order")
			}
			return control.Answer{Name: q.Name, Rcode: "NOERROR", Answer: []control.Record{{Name: q.Name, Data: "192.0.2.1"}}}, nil
		},
		CacheDump: func(_ context.Context, _ control.CachePart, send func(control.CacheEntry) error) error {
			for range 1000 { // more than the connection buffers
				if err := send(control.CacheEntry{Name: "good."}); err != nil {
					return err
				}
			}
			return errors.New("out of order")
		},
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- control.Serve(ctx, listener, api) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	for _, command := range []string{"query good. bad. more. A", "cache dump"} {
		for _, output := range []string{"json", "yaml"} {
			got := resultOf(t, exec.Command("node-dns", append(strings.Fields(command), "--root", root, "-o", output)...))
			kinds, err := kindsOf(got.out, output)
			if err != nil || len(kinds) != 2 || kinds[1] != "Error" || got.code != exitProblem {
				t.Errorf("%s -o %s: exit code %d, kinds %q, %v\n%s", command, output, got.code, kinds, err, got.errors)
			}
		}
	}
}

// kindsOf returns the kinds of the documents in an output.
func kindsOf(text, output string) (kinds []string, err error) {
	decode := json.NewDecoder(strings.NewReader(text)).Decode
	if output == "yaml" {
		decode = yaml.NewDecoder(strings.NewReader(text)).Decode
	}
	for {
		var document struct {
			Kind string `json:"kind" yaml:"kind"`
		}
		if err := decode(&document); err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return kinds, err
		}
		kinds = append(kinds, document.Kind)
	}
}

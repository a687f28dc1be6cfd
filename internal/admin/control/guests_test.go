package control

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/node-dns/node-dns/internal/test/golden"
)

// of returns the context of a caller with that level.
func of(ctx context.Context, l level) context.Context {
	return context.WithValue(ctx, callerKey{}, caller{1234, l})
}

// TestGuestsWait proves that all guests together get a burst and then 20 answers per second,
// including refusals, and that admins never wait.
func TestGuestsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mux := whole.handler()
		var answered atomic.Int64
		ctx, cancel := context.WithCancel(t.Context())
		var guests sync.WaitGroup
		for _, request := range []string{"GET " + statusPath, "POST " + queryPath, "POST " + cacheFlushPath, "GET /none", "GET " + cacheStatsPath, "GET /", "GET /", "GET /"} {
			guests.Go(func() {
				method, path, _ := strings.Cut(request, " ")
				for ctx.Err() == nil {
					mux.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(method, path, nil).WithContext(of(ctx, anyone)))
					answered.Add(1)
				}
			})
		}
		time.Sleep(10*time.Second + time.Millisecond)
		if n := answered.Load(); n < 200 || n > 200+guestBurst {
			t.Errorf("guests got %d answers in ten seconds", n)
		}
		began := time.Now()
		for range 1000 {
			mux.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", statusPath, nil).WithContext(of(ctx, admin)))
		}
		if waited := time.Since(began); waited > 0 {
			t.Errorf("an admin waited for %v", waited)
		}
		cancel()
		guests.Wait()
	})
}

// TestGuestsWhoLeave proves that requests of clients that disconnect at once are not answered and
// do not delay other users. Previously, 400 of them made other users wait for 18 s.
func TestGuestsWhoLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answered := 0
		mux := API{Search: func(context.Context, SearchQuestion) (Search, error) {
			answered++
			return Search{}, nil
		}}.handler()
		ask := func(ctx context.Context) {
			mux.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, searchPath, nil).WithContext(of(ctx, anyone)))
		}
		started := time.Now()
		for range 400 {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
			ask(ctx)
			cancel()
		}
		if most := guestBurst + int(time.Since(started)/guestPause); answered > most {
			t.Errorf("got %d answers, want at most %d", answered, most)
		}
		began := time.Now()
		ask(t.Context())
		if waited := time.Since(began); waited > maxGuests*guestPause {
			t.Errorf("another user waited for %v", waited)
		}
	})
}

// TestSpare proves that guests share an answer that takes a second for ten seconds, and that an
// admin gets a new one each time.
func TestSpare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		made := 0
		answer := spare(func(context.Context) int {
			time.Sleep(time.Second)
			made++
			return made
		})
		guest := of(t.Context(), anyone)
		for range 3 {
			if got := answer(guest); got != 1 {
				t.Errorf("got answer %d before the answer expired", got)
			}
		}
		if got := answer(of(t.Context(), admin)); got != 2 {
			t.Errorf("an admin got answer %d", got)
		}
		time.Sleep(8 * time.Second)
		if got := answer(guest); got != 1 {
			t.Errorf("got answer %d after 9 s", got)
		}
		time.Sleep(1001 * time.Millisecond)
		if got := answer(guest); got != 3 {
			t.Errorf("got answer %d after 10 s", got)
		}
	})
	if spare[int](nil) != nil {
		t.Error("an unsupported request became a supported one")
	}
}

// TestGuestSees lists every field of the status that a guest sees. A new field about clients or
// their queries must be hidden in API.status. Any other new field is added to the list by -update.
func TestGuestSees(t *testing.T) {
	var full Status
	fillTexts(reflect.ValueOf(&full).Elem())
	mux := API{Status: func(context.Context) Status { return full }}.handler()
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, statusPath, nil).WithContext(of(t.Context(), anyone)))
	var told map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &told); err != nil {
		t.Fatal(err)
	}
	var fields strings.Builder
	writeFields(&fields, "", told)
	golden.Check(t, "testdata/guest-sees.txt", fields.String())
	for _, hidden := range []string{"crowder"} {
		if strings.Contains(fields.String(), hidden) {
			t.Errorf("a guest can see %s", hidden)
		}
	}
	var text strings.Builder
	s := busy()
	s.Hidden = hiddenFromGuests
	if err := s.WriteText(&text); err != nil || !strings.Contains(text.String(), "\nHidden      names and clients of queries, cached answers: shown only to root and the group node-dns-admin\n") {
		t.Errorf("%v\n%s", err, text.String())
	}
}

// fillTexts sets every field of v, so that none is omitted from its JSON.
func fillTexts(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(1)
	case reflect.Uint16, reflect.Uint64:
		v.SetUint(1)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fillTexts(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fillTexts(v.Index(0))
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Unix(1, 0)))
			return
		}
		for i := range v.NumField() {
			fillTexts(v.Field(i))
		}
	}
}

// writeFields writes the sorted paths of the fields in a JSON value.
func writeFields(out *strings.Builder, path string, value any) {
	switch value := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(value)) {
			writeFields(out, path+"."+name, value[name])
		}
	case []any:
		for _, element := range value {
			writeFields(out, path+"[]", element)
		}
	default:
		out.WriteString(path + "\n")
	}
}

// TestSixQueriesAtOnce proves that the connections of six parallel queries of one user, two each,
// all get an answer. Eight of the twelve were closed at once.
func TestSixQueriesAtOnce(t *testing.T) {
	path := serveAll(t)
	var conns []net.Conn
	for range 12 {
		conns = append(conns, asker(t, path, 1001, 1001))
	}
	var answers atomic.Int64
	var clients sync.WaitGroup
	for _, conn := range conns {
		clients.Go(func() {
			defer conn.Close()
			if code, _ := answerOn(t, conn, "POST /v1/query"); code == http.StatusOK {
				answers.Add(1)
			}
		})
	}
	clients.Wait()
	if answers.Load() != 12 {
		t.Errorf("%d of 12 connections got an answer", answers.Load())
	}
}

// TestGuestSlots proves that waiting connections get slots in the order of their arrival, that
// other users do not wait for a user above the limit, and that the wait ends.
func TestGuestSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newGuestSlots(guestPatience)
		has := func(slot *guestSlot) bool {
			select {
			case <-slot.given:
				return true
			default:
				return false
			}
		}
		var first []*guestSlot
		for range maxGuestsOfUser + maxWaitingOfUser {
			slot := s.enter(1001)
			if slot == nil {
				t.Fatalf("connection %d was not accepted", len(first)+1)
			}
			first = append(first, slot)
		}
		if s.enter(1001) != nil {
			t.Error("a connection above the limit of waiting ones was accepted")
		}
		for i, slot := range first {
			if got, want := has(slot), i < maxGuestsOfUser; got != want {
				t.Errorf("connection %d has a slot: %v, want %v", i+1, got, want)
			}
		}
		other := s.enter(1002)
		if other == nil || !has(other) {
			t.Fatal("another user waits although there are slots")
		}
		second, third := first[maxGuestsOfUser], first[maxGuestsOfUser+1]
		s.leave(first[0])
		if !has(second) || has(third) {
			t.Error("the first waiting connection did not get the free slot")
		}
		s.leave(other)
		if has(third) {
			t.Error("a user got a slot above the limit of one user")
		}
		gone := first[len(first)-1]
		time.AfterFunc(guestPatience/2, func() { s.leave(gone) })
		if err := gone.wait(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("the wait of a closed connection: %v", err)
		}
		began := time.Now()
		if err := third.wait(); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) != guestPatience/2 {
			t.Errorf("after half of its time a connection waits %v more: %v", time.Since(began), err)
		}
		for _, slot := range first[1 : len(first)-1] {
			s.leave(slot)
		}
		if s.total != 0 || len(s.open) != 0 || len(s.waiting) != 0 {
			t.Errorf("after all left: %d slots, %v, %d waiting", s.total, s.open, len(s.waiting))
		}
	})
}

// TestSlowQueriesAtOnce: a connection that waits longer for its slot than a request may take to
// arrive is served. Queries of one user that took 5 s each failed after a second.
func TestSlowQueriesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newGuestSlots(guestPatience)
		const user, slow = 1001, 5 * time.Second
		for range maxGuestsOfUser {
			slot := s.enter(user)
			time.AfterFunc(2*slow, func() { s.leave(slot) })
		}
		for _, sends := range []bool{true, false} {
			ours, theirs := net.Pipe()
			v := &callerConn{Conn: ours, guests: s, slot: s.enter(user)}
			v.SetReadDeadline(time.Now().Add(readTimeout)) // by http.Server
			if sends {
				go theirs.Write([]byte("x"))
			}
			began := time.Now()
			n, err := v.Read(make([]byte, 1))
			if sends && (n != 1 || err != nil || time.Since(began) != 2*slow) {
				t.Errorf("got %d bytes, %v after %v", n, err, time.Since(began))
			}
			if !sends && !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("without a request: %v", err)
			}
			v.Close()
			theirs.Close()
			if sends {
				for range maxGuestsOfUser {
					slot := s.enter(user)
					time.AfterFunc(2*slow, func() { s.leave(slot) })
				}
			}
		}
	})
}

// TestGuestsWaitBounded proves that the waiting connections of all users together are bounded.
func TestGuestsWaitBounded(t *testing.T) {
	s := newGuestSlots(guestPatience)
	var all []*guestSlot
	for user := range 10 {
		for range maxGuestsOfUser + maxWaitingOfUser {
			if slot := s.enter(user); slot != nil {
				all = append(all, slot)
			}
		}
	}
	if len(all) != maxGuests+maxWaiting || s.total != maxGuests || len(s.waiting) != maxWaiting {
		t.Errorf("%d connections, %d slots, %d waiting", len(all), s.total, len(s.waiting))
	}
	if maxClients-len(all) != adminRoom {
		t.Errorf("guests leave %d connections for admins, want %d", maxClients-len(all), adminRoom)
	}
}

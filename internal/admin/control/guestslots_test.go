package control

import (
	"errors"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

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

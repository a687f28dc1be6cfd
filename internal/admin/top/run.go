package top

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gdamore/tcell/v2"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/sys/supervise"
)

// Config says what Run shows, and where.
type Config struct {
	// Follow hands events to show until the context ends, show fails, or there are no more, which is an error.
	Follow func(ctx context.Context, show func(control.MonitorEvent) error) error
	// IsAway reports whether Follow may succeed again soon after an error.
	IsAway func(error) bool
	// Screen is the terminal; nil: the one that the process has.
	Screen tcell.Screen
}

const (
	// redrawEvery is the time between frames where no key is pressed.
	redrawEvery = time.Second
	// retryEvery is the time between tries to reach a daemon that is away.
	retryEvery = time.Second
	// waiting bounds the events that wait for the screen; the daemon counts what does not fit.
	waiting = 256
)

// Run shows a Model on a terminal until the context ends or a key quits. It puts the terminal back, whatever happens.
func Run(ctx context.Context, c Config) error {
	screen := c.Screen
	if screen == nil {
		var err error
		if screen, err = tcell.NewScreen(); err != nil {
			return fmt.Errorf("using the terminal: %w", err)
		}
	}
	if err := screen.Init(); err != nil {
		return fmt.Errorf("using the terminal: %w", err)
	}
	defer screen.Fini()
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	events, failures := make(chan control.MonitorEvent, waiting), make(chan error)
	group.Go(func() { c.follow(ctx, events, failures) })
	keys := make(chan tcell.Event, 16)
	group.Go(func() { screen.ChannelEvents(keys, ctx.Done()) })
	return loop(ctx, screen, keys, events, failures, c.IsAway)
}

// follow sends events, and why there are none.
func (c Config) follow(ctx context.Context, events chan<- control.MonitorEvent, failures chan<- error) {
	for ctx.Err() == nil {
		err := c.Follow(ctx, func(e control.MonitorEvent) error {
			select {
			case events <- e:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		if err == nil || ctx.Err() != nil {
			return
		}
		select {
		case failures <- err:
		case <-ctx.Done():
		}
		supervise.Sleep(ctx, retryEvery)
	}
}

// loop owns the Model and the screen.
func loop(ctx context.Context, screen tcell.Screen, keys <-chan tcell.Event, events <-chan control.MonitorEvent, failures <-chan error, isAway func(error) bool) error {
	m := New()
	ticker := time.NewTicker(redrawEvery)
	defer ticker.Stop()
	draw(screen, m)
	for {
		select {
		case <-ctx.Done():
			return nil
		case e := <-events:
			isFirst := !m.hasStatus
			m.Take(e)
			if isFirst && m.hasStatus {
				draw(screen, m)
			}
			continue
		case err := <-failures:
			if !isAway(err) {
				return err
			}
			for len(events) > 0 { // which were sent before
				m.Take(<-events)
			}
			m.Unconnected(err)
		case <-ticker.C:
		case key, ok := <-keys:
			if !ok {
				return errClosed
			}
			switch key := key.(type) {
			case *tcell.EventResize:
				screen.Sync()
			case *tcell.EventKey:
				if m.Press(keyOf(key)) {
					return nil
				}
			case *tcell.EventError:
				return fmt.Errorf("reading the terminal: %w", key)
			}
		}
		draw(screen, m)
	}
}

// errClosed is for a terminal that has gone.
var errClosed = errors.New("the terminal was closed")

// keyNames are the keys that are no characters.
var keyNames = map[tcell.Key]Key{
	tcell.KeyUp: KeyUp, tcell.KeyDown: KeyDown, tcell.KeyLeft: KeyLeft, tcell.KeyRight: KeyRight,
	tcell.KeyPgUp: KeyPageUp, tcell.KeyPgDn: KeyPageDown, tcell.KeyHome: KeyHome,
	tcell.KeyEnter: KeyEnter, tcell.KeyEscape: KeyEscape, tcell.KeyTab: KeyTab, tcell.KeyBacktab: KeyBackTab,
	tcell.KeyBackspace: KeyBackspace, tcell.KeyBackspace2: KeyBackspace, tcell.KeyCtrlC: KeyInterrupt,
}

// keyOf names a key; "": the Model has no use for it.
func keyOf(e *tcell.EventKey) Key {
	if e.Key() == tcell.KeyRune {
		return Key(e.Rune())
	}
	return keyNames[e.Key()]
}

// styles are the looks of each Style. Those without colour differ all the same: package tcell leaves colours out where NO_COLOR is set.
var styles = [...]tcell.Style{
	Plain:  tcell.StyleDefault,
	Faint:  tcell.StyleDefault.Dim(true),
	Title:  tcell.StyleDefault.Bold(true),
	Chosen: tcell.StyleDefault.Reverse(true),
	Bad:    tcell.StyleDefault.Foreground(tcell.ColorRed).Bold(true),
}

// draw shows a frame. Only what has changed is sent to the terminal.
func draw(screen tcell.Screen, m *Model) {
	width, height := screen.Size()
	for y, line := range m.Frame(width, height) {
		x := 0
		for _, span := range line {
			for _, r := range span.Text { // printable ASCII, by fit
				screen.SetContent(x, y, r, nil, styles[span.Style])
				x++
			}
		}
	}
	screen.Show()
}

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

// Config holds the inputs of Run.
type Config struct {
	// Follow passes events to show until the context ends, show fails, or the stream ends, which is
	// an error.
	Follow func(ctx context.Context, show func(control.MonitorEvent) error) error
	// IsAway reports whether a retry of Follow may soon succeed after this error.
	IsAway func(error) bool
	// Screen is the terminal. nil means the terminal of the process.
	Screen tcell.Screen
}

const (
	// redrawEvery is the interval between frames while no key is pressed.
	redrawEvery = time.Second
	// retryEvery is the interval between attempts to reach the daemon.
	retryEvery = time.Second
	// waiting is the number of buffered events. The daemon counts those that do not fit.
	waiting = 256
)

// Run shows a Model on a terminal until the context ends or a key quits. It always restores the
// terminal.
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

// follow sends events, and the errors that interrupt them.
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
			for len(events) > 0 { // sent before the error
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

// errClosed means that the terminal was closed.
var errClosed = errors.New("the terminal was closed")

// keyNames maps the keys that are not characters.
var keyNames = map[tcell.Key]Key{
	tcell.KeyUp: KeyUp, tcell.KeyDown: KeyDown, tcell.KeyLeft: KeyLeft, tcell.KeyRight: KeyRight,
	tcell.KeyPgUp: KeyPageUp, tcell.KeyPgDn: KeyPageDown, tcell.KeyHome: KeyHome,
	tcell.KeyEnter: KeyEnter, tcell.KeyEscape: KeyEscape, tcell.KeyTab: KeyTab, tcell.KeyBacktab: KeyBackTab,
	tcell.KeyBackspace: KeyBackspace, tcell.KeyBackspace2: KeyBackspace, tcell.KeyCtrlC: KeyInterrupt,
}

// keyOf returns the key, or "" for one that the Model does not use.
func keyOf(e *tcell.EventKey) Key {
	if e.Key() == tcell.KeyRune {
		return Key(e.Rune())
	}
	return keyNames[e.Key()]
}

// styles maps each Style to its attributes. They also differ without colors, which package tcell
// omits if NO_COLOR is set.
var styles = [...]tcell.Style{
	Plain:  tcell.StyleDefault,
	Faint:  tcell.StyleDefault.Dim(true),
	Title:  tcell.StyleDefault.Bold(true),
	Chosen: tcell.StyleDefault.Reverse(true),
	Bad:    tcell.StyleDefault.Foreground(tcell.ColorRed).Bold(true),
}

// draw shows a frame. tcell sends only the changes to the terminal.
func draw(screen tcell.Screen, m *Model) {
	width, height := screen.Size()
	for y, line := range m.Frame(width, height) {
		x := 0
		for _, span := range line {
			for _, r := range span.Text { // printable ASCII; see fit
				screen.SetContent(x, y, r, nil, styles[span.Style])
				x++
			}
		}
	}
	screen.Show()
}

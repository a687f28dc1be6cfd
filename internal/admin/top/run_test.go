package top

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gdamore/tcell/v2"
	"go.uber.org/goleak"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/test/lab"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errAway = errors.New("node-dns is not running")

// terminal is a simulated terminal that stores its content.
type terminal struct {
	tcell.SimulationScreen
	mu   sync.Mutex // guards text
	text string
}

func (s *terminal) Show() {
	s.SimulationScreen.Show()
	cells, width, _ := s.GetContents()
	var text strings.Builder
	for i, c := range cells {
		if i%width == 0 {
			text.WriteByte('\n')
		}
		text.WriteString(string(c.Runes))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text = text.String()
}

func (s *terminal) shown() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text
}

// TestRun proves that events and keys have an effect, that Run waits for a daemon that is away, and
// that it ends after a key, the end of its context, or a permanent error.
func TestRun(t *testing.T) {
	denied := errors.New("permission denied")
	for _, test := range []struct {
		name   string
		follow []error // results of Follow in turn, each after a query; nil continues until Follow is told to end
		key    rune
		ends   func(screen *terminal, cancel func())
		sees   string
		want   error
	}{
		{
			name: "a key", follow: []error{nil}, key: '4',
			sees: "[4 Servers]", ends: func(s *terminal, _ func()) { s.InjectKey(tcell.KeyCtrlC, 0, tcell.ModCtrl) },
		},
		{name: "the context", follow: []error{nil}, sees: "www.example.", ends: func(_ *terminal, cancel func()) { cancel() }},
		{name: "away", follow: []error{errAway, nil}, sees: "node-dns is not running", ends: func(s *terminal, _ func()) { s.InjectKey(tcell.KeyRune, 'q', 0) }},
		{name: "denied", follow: []error{denied}, want: denied},
	} {
		t.Run(test.name, func(t *testing.T) {
			screen := &terminal{SimulationScreen: tcell.NewSimulationScreen("UTF-8")}
			screen.SetSize(80, 24)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			turn := 0
			ended := make(chan error, 1)
			go func() {
				ended <- Run(ctx, Config{
					Screen: screen,
					IsAway: func(err error) bool { return errors.Is(err, errAway) },
					Follow: func(ctx context.Context, show func(control.MonitorEvent) error) error {
						err := test.follow[min(turn, len(test.follow)-1)]
						turn++
						for _, e := range []control.MonitorEvent{
							{Kind: control.KindQuery, Time: time.Now(), Client: "10.0.0.1", Name: "www.example.", Rcode: "NOERROR", By: "hit"},
							{Kind: control.KindStatus, Time: time.Now(), Status: &control.Status{Now: time.Now()}},
						} {
							if err := show(e); err != nil {
								return err
							}
						}
						if err == nil {
							<-ctx.Done()
						}
						return err
					},
				})
			}()
			await := func(text string) {
				t.Helper()
				if !lab.Poll(20*time.Second, func() bool { return strings.Contains(screen.shown(), text) }) {
					t.Errorf("the screen shows%s", screen.shown())
				}
			}
			if test.sees != "" {
				await("node-dns top") // earlier keys would be lost
				if test.key != 0 {
					screen.InjectKey(tcell.KeyRune, test.key, 0)
				}
				await(test.sees)
				test.ends(screen, cancel)
			}
			select {
			case err := <-ended:
				if !errors.Is(err, test.want) {
					t.Errorf("Run returned %v", err)
				}
			case <-time.After(20 * time.Second):
				t.Fatal("Run did not end")
			}
		})
	}
}

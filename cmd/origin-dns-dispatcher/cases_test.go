package main_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/node-dns/node-dns/internal/test/lab"
)

// TestCases runs the real program on every recorded case, with real interfaces, addresses and
// routes. There is no bus and no NetworkManager, so it uses the files and the event's variables.
// test/netns covers the rest.
func TestCases(t *testing.T) {
	cases := readBehaviors(t)
	if len(cases) != 64 {
		t.Errorf("got %d cases, want 64", len(cases))
	}
	for _, b := range cases {
		t.Run(b.ID, func(t *testing.T) { b.run(t) })
	}
}

// run runs the case twice: the second run must not change correct files.
func (b behavior) run(t *testing.T) {
	t.Log(b.Title)
	l := lab.New(t)
	b.Before.build(t, l)
	l.WriteFile("/var/cache/node-dns/cluster.snapshot", "x") // the node has a cluster
	node := newNode(t, l, b)
	old := readTree(t)

	runs := node.play(b.Events)
	new := readTree(t)
	b.check(t, old, new)
	b.checkNote(t, runs)
	if node.reloads != b.Expected.Reloads {
		t.Errorf("the resolver was reloaded or started %d times, want %d", node.reloads, b.Expected.Reloads)
	}

	for _, r := range node.play(b.Events) {
		if r.attr("written") != "" {
			t.Errorf("the second run wrote %s", r.attr("written"))
		}
	}
	if d := cmp.Diff(map[string]string{}, changes(new, readTree(t))); d != "" {
		t.Errorf("the second run changed files:\n%s", d)
	}
	if t.Failed() {
		for _, r := range runs {
			t.Logf("%v logged: %s", r.argv, r.log)
		}
	}
}

package hostdns

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestLacksWayBack(t *testing.T) {
	const (
		booted = "/run/systemd/system/"
		unit   = "/usr/lib/systemd/system/node-dns.service"
		dir    = "/run/node-dns/"
		stamp  = "/run/node-dns/way-back"
	)
	for _, tt := range []struct {
		name  string
		files []string
		want  bool
	}{
		{"unit started, program not run", []string{booted, unit, dir}, true},
		{"unit started, program run", []string{booted, unit, dir, stamp}, false},
		{"unit not started", []string{booted, unit}, false},
		{"no unit, daemon started by hand", []string{booted, dir}, false},
		{"not booted with systemd", []string{unit, dir}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			for _, file := range tt.files {
				path := filepath.Join(root, file)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				var err error
				if file[len(file)-1] == '/' {
					err = os.MkdirAll(path, 0o755)
				} else {
					err = os.WriteFile(path, nil, 0o644)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if got := NewPaths(root).LacksWayBack(); got != tt.want {
				t.Errorf("LacksWayBack is %v, want %v", got, tt.want)
			}
		})
	}
}

func TestCheckWayBack(t *testing.T) {
	for _, tt := range []struct {
		name, recorded, started string
		want                    bool
	}{
		{"this start", "c0ffee", "c0ffee", true},
		{"an earlier start", "c0ffee", "decaf", false},
		{"none", "", "decaf", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			paths := NewPaths(t.TempDir())
			if err := os.MkdirAll(filepath.Dir(paths.WayBack), 0o755); err != nil {
				t.Fatal(err)
			}
			if tt.recorded != "" {
				if err := paths.RecordWayBack(tt.recorded); err != nil {
					t.Fatal(err)
				}
			}
			if got, err := paths.CheckWayBack(tt.started); got != tt.want || err != nil {
				t.Errorf("CheckWayBack is %v, %v, want %v", got, err, tt.want)
			}
			if _, err := os.Stat(paths.WayBack); errors.Is(err, fs.ErrNotExist) == tt.want {
				t.Errorf("after CheckWayBack the stamp is there: %v, want %v", err == nil, tt.want)
			}
		})
	}
}

// TestPlanWithoutWayBack: on RHEL 9 SELinux kept systemd from running the hook's program,
// NetworkManager's event pointed resolv.conf at the node, and a stop left it like that.
func TestPlanWithoutWayBack(t *testing.T) {
	for _, tt := range []struct {
		name string
		file string
		want Verdict
	}{
		{"resolv.conf is the host's own", generated, Held},
		{"resolv.conf was pointed here in an earlier start", oursText, Restored},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := host(withNetworkManager(dnsConfig("eth0", "10.0.0.2", "example.com")), withResolvConf(file(tt.file)))
			s.LacksWayBack = true
			p := NewPlan(s)
			if _, got := p.decide(true); got != tt.want || p.Hold != NoWayBack {
				t.Errorf("got verdict %q, hold %q, want verdict %q", got, p.Hold, tt.want)
			}
			if p.Complete(nil) {
				t.Error("the plan reports that it is complete")
			}
		})
	}
}

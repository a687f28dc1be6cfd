package doctor

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/node-dns/node-dns/internal/sys/dbusconn"
)

func TestParseRelabels(t *testing.T) {
	// Output of restorecon from libselinux 3.4. Later versions print "<no context>" instead of
	// "(null)".
	const text = `Would relabel /var/lib/node-dns/upstreams.json from system_u:object_r:var_lib_t:s0 to system_u:object_r:node_dns_var_lib_t:s0
Would relabel /etc/node-dns/a from b to c from (null) to system_u:object_r:node_dns_conf_t:s0
Would relabel /run/node-dns from <no context> to system_u:object_r:node_dns_runtime_t:s0
/etc/node-dns/kubeconfig not reset as customized by admin to system_u:object_r:container_file_t:s0
Would relabel
Would relabel x to y
`
	want := []Mislabelled{
		{"/var/lib/node-dns/upstreams.json", "var_lib_t", "node_dns_var_lib_t"},
		{"/etc/node-dns/a from b to c", "none", "node_dns_conf_t"},
		{"/run/node-dns", "none", "node_dns_runtime_t"},
	}
	if diff := cmp.Diff(want, parseRelabels(text)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// FuzzParseRelabels proves that parsing the formatted result gives the same result.
func FuzzParseRelabels(f *testing.F) {
	f.Add("Would relabel /a from b to c from u:r:x_t:s0 to u:r:y_t:s0\n")
	f.Fuzz(func(t *testing.T, text string) {
		got := parseRelabels(text)
		var again strings.Builder
		for _, m := range got {
			if strings.Contains(m.Has+m.Wants, " ") {
				return // no type contains a space
			}
			again.WriteString("Would relabel " + m.Path + " from u:r:" + m.Has + ":s0 to u:r:" + m.Wants + ":s0\n")
		}
		if diff := cmp.Diff(got, parseRelabels(again.String())); diff != "" {
			t.Errorf("(-first +again):\n%s", diff)
		}
	})
}

func TestTail(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	if _, err := tail(path, 8); !os.IsNotExist(err) {
		t.Errorf("got %v without a file", err)
	}
	if err := os.WriteFile(path, []byte("one\ntwo\nthree\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for limit, want := range map[int64]string{100: "one\ntwo\nthree\n", 14: "one\ntwo\nthree\n", 12: "two\nthree\n", 9: "three\n", 3: ""} {
		if got, err := tail(path, limit); err != nil || got != want {
			t.Errorf("%d bytes: got %q, %v", limit, got, err)
		}
	}
}

func TestConcerning(t *testing.T) {
	start := epoch.Add(-lately)
	at := func(d Denial, after time.Duration, serial uint64) Denial {
		d.Time, d.Serial = start.Add(after), serial
		return d
	}
	of := func(record string) Denial { return at(denial(record), time.Minute, 0) }
	const contexts = " scontext=u:r:sshd_t:s0 tcontext=u:r:etc_t:s0 tclass=file permissive=0"
	for _, row := range []struct {
		name string
		all  []Denial
		want int
	}{
		{"none", nil, 0},
		{"another program's", []Denial{of(`avc:  denied  { read } for  pid=1 comm="sshd" name="shadow"` + contexts)}, 0},
		{"systemd's own", []Denial{of("avc:  denied  { audit_control } for  pid=1 comm=\"systemd\" capability=30  scontext=u:r:init_t:s0 tcontext=u:r:init_t:s0 tclass=capability permissive=0")}, 0},
		{"nm-dispatcher's, with the hook's shortened name", []Denial{of(`avc:  denied  { read } for  pid=1 comm="(spatcher)" name="other"` + contexts)}, 0},
		{"our domain's", []Denial{noTransition}, 1},
		{"our program's, without its domain", []Denial{of(`avc:  denied  { rename } for  pid=1 comm="node-dns" name="control.sock.new" scontext=u:r:init_t:s0 tcontext=u:object_r:var_run_t:s0 tclass=sock_file permissive=0`)}, 1},
		{"the hook's, with 15 characters", []Denial{of(`avc:  denied  { write } for  pid=1 comm="origin-dns-disp" name="resolv.conf"` + contexts)}, 1},
		{"another program's, of our file", []Denial{of(`avc:  denied  { read } for  pid=1 comm="dnsmasq" name="origin-upstream-dns.conf"` + contexts)}, 1},
		{"before the last hour", []Denial{at(noExecute, -time.Second, 1)}, 0},
		{"in the audit log and the journal", []Denial{at(noExecute, time.Minute, 7), at(noExecute, time.Minute+time.Millisecond, 7)}, 1},
		{"twice", []Denial{at(noExecute, time.Minute, 7), at(noExecute, time.Minute, 8)}, 2},
		{"two of one event", []Denial{at(noExecute, time.Minute, 7), at(noTransition, time.Minute, 7)}, 2},
		{"without serial numbers", []Denial{at(noExecute, time.Minute, 0), at(noExecute, time.Minute, 0)}, 2},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got := relevantDenials(row.all, start); len(got) != row.want {
				t.Errorf("got %+v", got)
			}
		})
	}
	mixed := relevantDenials([]Denial{at(noExecute, time.Hour, 9), at(noExecute, time.Minute, 8)}, start)
	if len(mixed) != 2 || mixed[0].Serial != 8 {
		t.Errorf("got %+v, want the oldest first", mixed)
	}
}

func TestLastRuns(t *testing.T) {
	context := func(domain string) string { return "system_u:system_r:" + domain + ":s0" }
	entries := []logEntry{
		{"_SYSTEMD_UNIT": "node-dns.service", "_SELINUX_CONTEXT": context("init_t")},
		{"_SYSTEMD_UNIT": "NetworkManager-dispatcher.service", "_SELINUX_CONTEXT": context("NetworkManager_dispatcher_custom_t")},
		{"OBJECT_SYSTEMD_UNIT": "node-dns.service", "_SELINUX_CONTEXT": context("node_dns_hook_t")}, // had ended before journald looked
		{"_SYSTEMD_UNIT": "node-dns-apply.service"},
		{"_SELINUX_CONTEXT": context("unconfined_t")}, // outside of any unit
	}
	want := []HookDomain{
		{"NetworkManager-dispatcher.service", "NetworkManager_dispatcher_custom_t"}, {"node-dns.service", "node_dns_hook_t"},
	}
	if diff := cmp.Diff(want, lastRuns(entries)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestLastChange: after the suggested fix for a hook in the wrong domain, restorecon, the finding
// remained until NetworkManager's next event.
func TestLastChange(t *testing.T) {
	g := &gathering{root: t.TempDir()}
	if got := g.lastChange(hookFiles); !got.Equal(time.Unix(0, 0)) {
		t.Errorf("got %v without files", got)
	}
	hook := g.at(hookProgram)
	if err := os.MkdirAll(filepath.Dir(hook), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(hook, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(hook, epoch, epoch); err != nil { // rpm also sets the mtime, and a new label does not change it either
		t.Fatal(err)
	}
	if got := time.Since(g.lastChange(hookFiles)); got < 0 || got > time.Hour {
		t.Errorf("a new file changed %v ago", got)
	}
}

func TestSkipped(t *testing.T) {
	entry := func(message, path string, after time.Duration) logEntry {
		us := epoch.Add(after).UnixMicro()
		return logEntry{"MESSAGE": message, "EXECUTABLE": path, "__REALTIME_TIMESTAMP": strconv.FormatInt(us, 10)}
	}
	const hidden = "node-dns.service: Executable /usr/sbin/origin-dns-dispatcher missing, skipping: Permission denied"
	const exec = "node-dns.service: Failed at step EXEC spawning /usr/sbin/node-dns: No such file or directory"
	for _, row := range []struct {
		name     string
		commands []dbusconn.Command
		entries  []logEntry
		want     []Skipped
	}{
		{"all were run", []dbusconn.Command{{Setting: "ExecStartPre", Path: hookProgram, Started: epoch}, {Setting: "ExecStart", Path: "/usr/sbin/node-dns", Started: epoch, Signal: true, Status: 9}}, nil, nil},
		{"a failure of the program itself", []dbusconn.Command{{Setting: "ExecStartPre", Path: hookProgram, Started: epoch, Status: 1}}, nil, nil},
		{
			"skipped twice",
			[]dbusconn.Command{{Setting: "ExecStartPre", Path: hookProgram, Started: epoch}},
			[]logEntry{entry(hidden, hookProgram, 0), entry(hidden, hookProgram, time.Second)},
			[]Skipped{{daemonUnit, hookProgram, []string{strings.TrimPrefix(hidden, "node-dns.service: ")}, true, 2}},
		},
		{
			"two entries of one run", nil,
			[]logEntry{entry("node-dns.service: Failed to locate executable x", "x", 0), entry("node-dns.service: Failed at step EXEC spawning x", "x", 0)},
			[]Skipped{{daemonUnit, "x", []string{"Failed to locate executable x", "Failed at step EXEC spawning x"}, false, 2}},
		},
		{"skipped in an earlier start", nil, []logEntry{entry(hidden, hookProgram, -time.Second)}, nil},
		{
			"not there",
			[]dbusconn.Command{{Setting: "ExecStart", Path: "/usr/sbin/node-dns", Started: epoch, Status: 203}},
			[]logEntry{entry(exec, "/usr/sbin/node-dns", 0)},
			[]Skipped{{daemonUnit, "/usr/sbin/node-dns", []string{strings.TrimPrefix(exec, "node-dns.service: ")}, false, 1}},
		},
		{
			"by its status alone, as the journal may not be read",
			[]dbusconn.Command{{Setting: "ExecStopPost", Path: hookProgram, Started: epoch, Status: 229}},
			nil,
			[]Skipped{{daemonUnit, hookProgram, []string{"ExecStopPost ended with status 229, set by systemd because it could not run the program"}, false, 1}},
		},
		{"a status of an earlier start", []dbusconn.Command{{Setting: "ExecStopPost", Path: hookProgram, Started: epoch.Add(-time.Hour), Status: 203}}, nil, nil},
		{"an entry without a program", nil, []logEntry{{"MESSAGE": "x", "__REALTIME_TIMESTAMP": strconv.FormatInt(epoch.UnixMicro(), 10)}}, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			if diff := cmp.Diff(row.want, skipped(daemonUnit, epoch, row.commands, row.entries)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

package journal

import "testing"

func TestUnitOf(t *testing.T) {
	tests := []struct{ name, groups, want string }{
		{"systemd 252", "0::/system.slice/NetworkManager-dispatcher.service\n", "NetworkManager-dispatcher.service"},
		{"below its unit", "0::/system.slice/system-node.slice/node@a.service/sub.service/x\n", "node@a.service"},
		{
			"RHEL 8, in both hierarchies", "12:cpu,cpuacct:/other.service\n1:name=systemd:/system.slice/node-dns-apply.service\n0::/\n",
			"node-dns-apply.service",
		},
		{"a login", "0::/user.slice/user-0.slice/session-1.scope\n", "session-1.scope"},
		{"escaped", "0::/system.slice/_cpu.service", "cpu.service"},
		{"none", "0::/\n", ""},
		{"no such file's format", "x\n::::\n", ""},
	}
	for _, test := range tests {
		if got := unitOf(test.groups); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

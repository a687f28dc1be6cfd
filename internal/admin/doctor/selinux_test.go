package doctor

import (
	"fmt"
	"slices"
	"time"

	"github.com/node-dns/node-dns/internal/sys/procfs"
)

// denial parses an audit record.
func denial(record string) Denial {
	d, ok := parseDenial(record)
	if !ok {
		panic("no denial: " + record)
	}
	d.Time = epoch.Add(-time.Minute)
	return d
}

// Denials from a virtual machine with the policy of RHEL 9.
var (
	noExecute    = denial(`avc:  denied  { execute } for  pid=1042 comm="(spatcher)" name="99-origin-dns" dev="vda" ino=131 scontext=system_u:system_r:init_t:s0 tcontext=system_u:object_r:NetworkManager_dispatcher_script_t:s0 tclass=file permissive=0`)
	noTransition = denial(`avc:  denied  { nnp_transition } for  pid=611 comm="(node-dns)" scontext=system_u:system_r:init_t:s0 tcontext=system_u:system_r:node_dns_t:s0 tclass=process2 permissive=0`)
)

// selinuxRows are the rows of the checks that depend on SELinux.
var selinuxRows = []checkRow{
	{"commands", "all are run", nil, OK, "could run every command"},
	{"commands", "no systemd", func(s *Snapshot) { s.Units = nil }, "", ""},
	{"commands", "SELinux keeps systemd from the hook", func(s *Snapshot) {
		s.Skipped = []Skipped{{daemonUnit, hookProgram, []string{"Executable /usr/sbin/origin-dns-dispatcher missing, skipping: Permission denied"}, true, 3}}
	}, Fail, "cannot run /usr/sbin/origin-dns-dispatcher for node-dns.service: /etc/resolv.conf is not written at start and not restored at stop|skipping: Permission denied|3 times since the unit's last start|systemd ignored the failure|ls -lLZ /usr/sbin/origin-dns-dispatcher|restorecon -RFv /usr/sbin/origin-dns-dispatcher /usr/libexec/node-dns"},
	{"commands", "noexec, without SELinux", func(s *Snapshot) {
		s.SELinux = SELinux{}
		s.Skipped = []Skipped{{applyUnit, hookProgram, []string{"Unable to locate executable '/usr/sbin/origin-dns-dispatcher': Permission denied", "Failed at step EXEC"}, false, 2}}
	}, Fail, "for node-dns-apply.service|Unable to locate|Failed at step EXEC|mode 0755 and a file system without noexec"},
	{"commands", "a path of shell syntax", func(s *Snapshot) {
		s.Skipped = []Skipped{{daemonUnit, "/opt/a;b", []string{"Failed at step EXEC spawning /opt/a;b: Permission denied"}, false, 1}}
	}, Fail, "ls -lLZ '/opt/a;b' shows"},
	{"commands", "a file is gone", func(s *Snapshot) {
		s.Skipped = []Skipped{{daemonUnit, "/usr/sbin/node-dns", []string{"Failed at step EXEC spawning /usr/sbin/node-dns: No such file or directory"}, false, 1}}
	}, Fail, "cannot run /usr/sbin/node-dns for node-dns.service|install the package"},

	{"selinux", "is well", nil, OK, "SELinux is enforcing, policy targeted; the daemon runs as node_dns_t; the hook as NetworkManager_dispatcher_custom_t (NetworkManager-dispatcher.service), node_dns_hook_t (node-dns.service)"},
	{"selinux", "is not on this host", func(s *Snapshot) { s.SELinux = SELinux{} }, "", ""},
	{"selinux", "is disabled", func(s *Snapshot) {
		s.SELinux = SELinux{Config: SELinuxConfig{Mode: "disabled"}, InKernel: true}
	}, OK, "SELinux is disabled"},
	{"selinux", "is not in the kernel", func(s *Snapshot) { s.SELinux = SELinux{Config: SELinuxConfig{Mode: "enforcing"}} }, OK, "the kernel lacks it or was booted with selinux=0"},
	{"selinux", "permissive", func(s *Snapshot) { s.SELinux.Mode = procfs.SELinuxPermissive }, OK, "SELinux is permissive"},
	{"selinux", "may not be asked for its mode", func(s *Snapshot) { s.SELinux = SELinux{Mode: procfs.SELinuxOn} }, OK, "SELinux is on"},
	{"selinux", "without a module", func(s *Snapshot) { s.SELinux.HasModule, s.SELinux.Daemon = false, "unconfined_service_t" }, OK, "the daemon runs as unconfined_service_t"},
	{"selinux", "the daemon was started before the module came", func(s *Snapshot) { s.SELinux.Daemon = "unconfined_service_t" }, Warn, "runs as unconfined_service_t, although the policy module node_dns is installed|systemctl restart node-dns"},
	{"selinux", "the program has another label", func(s *Snapshot) {
		s.SELinux.Daemon, s.SELinux.Mislabelled = "unconfined_service_t", []Mislabelled{{"/usr/sbin/node-dns", "bin_t", "node_dns_exec_t"}}
	}, Warn, "restorecon -RFv /usr/sbin/node-dns && systemctl restart node-dns"},
	{"selinux", "the transition is denied", func(s *Snapshot) { s.SELinux.Daemon = "init_t" }, Fail, "runs in systemd's own domain init_t|update node-dns-selinux"},
	{"selinux", "the transition would be denied", func(s *Snapshot) { s.SELinux.Daemon, s.SELinux.Mode = "init_t", procfs.SELinuxPermissive }, Warn, "systemd's own domain"},
	{"selinux", "the hook stays in the domain of who runs it", func(s *Snapshot) { s.SELinux.Hooks[0].Domain = "NetworkManager_dispatcher_t" }, Fail, "the hook last ran as NetworkManager_dispatcher_t in NetworkManager-dispatcher.service|restorecon -RFv|origin-dns-dispatcher apply"},

	{"labels", "are right", nil, "", ""},
	{"labels", "are wrong", func(s *Snapshot) {
		s.SELinux.Mislabelled = []Mislabelled{{"/etc/node-dns/a\nb", "user_tmp_t", "node_dns_conf_t"}, {"/var/lib/node-dns", "var_lib_t", "node_dns_var_lib_t"}}
	}, Fail, "2 files of node-dns with an SELinux type that differs from the policy|/etc/node-dns/a; b is user_tmp_t, not node_dns_conf_t|/var/lib/node-dns is var_lib_t|restorecon -RFv /etc/node-dns /var/lib/node-dns"},
	{"labels", "are wrong, where nothing is confined by them", func(s *Snapshot) {
		s.SELinux.HasModule, s.SELinux.Mislabelled = false, []Mislabelled{{"/etc/node-dns/kubeconfig", "user_tmp_t", "etc_t"}}
	}, Warn, "1 file of node-dns"},
	{"labels", "of many files", func(s *Snapshot) {
		s.SELinux.Mislabelled = slices.Repeat([]Mislabelled{{"/run/node-dns/x", "var_run_t", "node_dns_runtime_t"}}, 14)
	}, Fail, "and 4 more|restorecon -RFv /run/node-dns"},

	{"denials", "none", nil, OK, "no visible SELinux denials for node-dns in the last hour"},
	{"denials", "SELinux is off", func(s *Snapshot) { s.SELinux = SELinux{} }, "", ""},
	{
		"denials", "some", func(s *Snapshot) { s.SELinux.Denials = []Denial{noExecute, noTransition, noExecute} }, Warn,
		"3 denials|(spatcher) as init_t: denied { execute } on file 99-origin-dns of type NetworkManager_dispatcher_script_t, 2 times, last at 11:59:00|(node-dns) as init_t: denied { nnp_transition } on process2 of type node_dns_t, 1 time|audit2why",
	},
	{"denials", "of a port, in permissive mode", func(s *Snapshot) {
		s.SELinux.Denials = []Denial{denial("avc:  denied  { name_bind } for  pid=7 src=5353 scontext=a:b:node_dns_t:s0 tcontext=d:e:howl_port_t:s0 tclass=udp_socket permissive=1")}
	}, Warn, "node_dns_t: would be denied in enforcing mode: { name_bind } on udp_socket port 5353 of type howl_port_t"},
	{"denials", "of many kinds", func(s *Snapshot) {
		for i := range 12 {
			d := noExecute
			d.Name = fmt.Sprint("node-dns", i)
			s.SELinux.Denials = append(s.SELinux.Denials, d)
		}
	}, Warn, "12 denials|and 2 more"},
}

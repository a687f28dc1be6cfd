package doctor

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// denialRecords are log records from RHEL 9's policy and other systems, and their meaning.
var denialRecords = []struct {
	name, record string
	want         Denial
}{
	{
		"systemd may not execute the hook", // from a virtual machine with RHEL 9's policy
		`type=AVC msg=audit(1795312345.678:412): avc:  denied  { execute } for  pid=1042 comm="(spatcher)" name="99-origin-dns" dev="vda" ino=131 scontext=system_u:system_r:init_t:s0 tcontext=system_u:object_r:NetworkManager_dispatcher_script_t:s0 tclass=file permissive=0`,
		Denial{
			Time: time.Date(2026, 11, 22, 1, 52, 25, 678e6, time.UTC), Serial: 412, Permissions: []string{"execute"}, Class: "file", Command: "(spatcher)", Name: "99-origin-dns",
			Source: "system_u:system_r:init_t:s0", Target: "system_u:object_r:NetworkManager_dispatcher_script_t:s0",
		},
	},
	{
		"the transition, in the journal", // its text has neither time nor serial number
		`AVC avc:  denied  { nnp_transition } for  pid=611 comm="(node-dns)" scontext=system_u:system_r:init_t:s0 tcontext=system_u:system_r:node_dns_t:s0 tclass=process2 permissive=0`,
		Denial{
			Permissions: []string{"nnp_transition"}, Class: "process2", Command: "(node-dns)",
			Source: "system_u:system_r:init_t:s0", Target: "system_u:system_r:node_dns_t:s0",
		},
	},
	{
		"several permissions, permissive, a path in hexadecimal, an enriched log",
		"type=AVC msg=audit(1700000000.001:7): avc:  denied  { read open } for  pid=611 comm=\"node-dns\" path=2F6574632F6E6F64652D646E732F612062 dev=\"vda\" ino=9 scontext=system_u:system_r:node_dns_t:s0 tcontext=unconfined_u:object_r:user_tmp_t:s0 tclass=file permissive=1\x1dSYSCALL=openat AUID=\"unset\"",
		Denial{
			Time: time.Date(2023, 11, 14, 22, 13, 20, 1e6, time.UTC), Serial: 7, Permissions: []string{"read", "open"}, Class: "file", Command: "node-dns", Name: "/etc/node-dns/a b",
			Source: "system_u:system_r:node_dns_t:s0", Target: "unconfined_u:object_r:user_tmp_t:s0", Permissive: true,
		},
	},
	{
		"a port",
		`type=AVC msg=audit(1700000000.123:45): avc:  denied  { name_bind } for  pid=7 comm="node-dns" src=5353 scontext=system_u:system_r:node_dns_t:s0 tcontext=system_u:object_r:howl_port_t:s0 tclass=udp_socket permissive=0`,
		Denial{
			Time: time.Date(2023, 11, 14, 22, 13, 20, 123e6, time.UTC), Serial: 45, Permissions: []string{"name_bind"}, Class: "udp_socket", Command: "node-dns", Port: "5353",
			Source: "system_u:system_r:node_dns_t:s0", Target: "system_u:object_r:howl_port_t:s0",
		},
	},
	{
		"a port, in the kernel's log", // from a Debian 13 guest, where journald does not read audit records
		`audit: type=1400 audit(1795584809.752:476): avc:  denied  { name_bind } for  pid=668 comm="node-dns" src=5353 scontext=system_u:system_r:node_dns_t:s0 tcontext=system_u:object_r:howl_port_t:s0 tclass=udp_socket permissive=0`,
		Denial{
			Time: time.Unix(1795584809, 752e6).UTC(), Serial: 476, Permissions: []string{"name_bind"}, Class: "udp_socket", Command: "node-dns", Port: "5353",
			Source: "system_u:system_r:node_dns_t:s0", Target: "system_u:object_r:howl_port_t:s0",
		},
	},
	{
		"the bus",
		`type=USER_AVC msg=audit(1700000000.123:46): pid=612 uid=81 auid=4294967295 ses=4294967295 subj=system_u:system_r:system_dbusd_t:s0-s0:c0.c1023 msg='avc:  denied  { send_msg } for msgtype=method_call interface=org.freedesktop.DBus.Properties member=GetAll dest=org.freedesktop.NetworkManager spid=700 tpid=640 scontext=system_u:system_r:node_dns_t:s0 tcontext=system_u:system_r:NetworkManager_t:s0 tclass=dbus permissive=0 exe="/usr/bin/dbus-daemon" sauid=81 hostname=? addr=? terminal=?'` + "\x1dUID=\"dbus\" AUID=\"unset\"",
		Denial{
			Time: time.Date(2023, 11, 14, 22, 13, 20, 123e6, time.UTC), Serial: 46, Permissions: []string{"send_msg"}, Class: "dbus",
			Source: "system_u:system_r:node_dns_t:s0", Target: "system_u:system_r:NetworkManager_t:s0",
		},
	},
	{
		"systemd, with a command line in quotes",
		`USER_AVC pid=1 uid=0 auid=4294967295 ses=4294967295 subj=system_u:system_r:init_t:s0 msg='avc:  denied  { start } for auid=n/a uid=0 gid=0 path="/usr/lib/systemd/system/node-dns.service" cmdline="systemctl start node-dns scontext=x" function="method_start_unit" scontext=staff_u:staff_r:staff_t:s0 tcontext=system_u:object_r:systemd_unit_file_t:s0 tclass=service permissive=0 exe="/usr/lib/systemd/systemd" sauid=0 hostname=? addr=? terminal=?'`,
		Denial{
			Permissions: []string{"start"}, Class: "service", Name: "/usr/lib/systemd/system/node-dns.service",
			Source: "staff_u:staff_r:staff_t:s0", Target: "system_u:object_r:systemd_unit_file_t:s0",
		},
	},
}

func TestParseDenial(t *testing.T) {
	for _, row := range denialRecords {
		t.Run(row.name, func(t *testing.T) {
			got, ok := parseDenial(row.record)
			if diff := cmp.Diff(row.want, got); !ok || diff != "" {
				t.Errorf("%v (-want +got):\n%s", ok, diff)
			}
		})
	}
}

func TestNoDenial(t *testing.T) {
	const contexts = " scontext=a:b:c:s0 tcontext=d:e:f:s0 tclass=file permissive=0"
	for _, record := range []string{
		"",
		"type=SYSCALL msg=audit(1700000000.123:45): arch=c000003e syscall=59 success=no exit=-13 comm=\"(spatcher)\"",
		"type=AVC msg=audit(1700000000.123:45): avc:  granted  { load_policy } for  pid=1" + contexts,
		"type=USER_AVC msg=audit(1700000000.123:45): pid=1 msg='avc:  op=load_policy lsm=selinux seqno=2 res=1'",
		"avc:  denied  { } for pid=1" + contexts,
		"avc:  denied  { read for pid=1" + contexts,
		"avc:  denied  { read } for  pid=1 scontext=a:b:c:s0 tcontext=d:e:f:s0",
		"avc:  denied",
	} {
		if d, ok := parseDenial(record); ok {
			t.Errorf("%q: %+v", record, d)
		}
	}
}

func TestIsSame(t *testing.T) {
	a, _ := parseDenial(denialRecords[0].record)
	later := a
	later.Time, later.Serial = a.Time.Add(time.Minute), 900
	other := a
	other.Name = "another"
	if !a.isSame(later) || a.isSame(other) {
		t.Errorf("later %v, other %v", a.isSame(later), a.isSame(other))
	}
}

// FuzzParseDenial: a parsed denial stays the same when written in the kernel's format and parsed
// again.
func FuzzParseDenial(f *testing.F) {
	for _, row := range denialRecords {
		f.Add(row.record)
	}
	f.Fuzz(func(t *testing.T, record string) {
		d, ok := parseDenial(record)
		if !ok {
			return
		}
		if d.Time.IsZero() != (d.Serial == 0) && d.Serial != 0 {
			t.Errorf("time %v, serial %d", d.Time, d.Serial)
		}
		again, ok := parseDenial(write(d))
		if diff := cmp.Diff(d, again); !ok || diff != "" {
			t.Errorf("%q: %v (-first +again):\n%s", write(d), ok, diff)
		}
	})
}

// write returns a record with the contents of d.
func write(d Denial) string {
	var out strings.Builder
	if !d.Time.IsZero() {
		fmt.Fprintf(&out, "type=AVC msg=audit(%d.%03d:%d): ", d.Time.Unix(), d.Time.Nanosecond()/1e6, d.Serial)
	}
	fmt.Fprintf(&out, "avc:  denied  { %s } for ", strings.Join(d.Permissions, " "))
	field := func(key, value string) {
		if value != "" {
			fmt.Fprintf(&out, " %s=%s", key, value)
		}
	}
	field("comm", hex.EncodeToString([]byte(d.Command)))
	field("path", hex.EncodeToString([]byte(d.Name)))
	field("src", d.Port)
	field("scontext", d.Source)
	field("tcontext", d.Target)
	field("tclass", d.Class)
	if d.Permissive {
		field("permissive", "1")
	}
	return out.String()
}

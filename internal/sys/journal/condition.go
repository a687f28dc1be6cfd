// Package journal sends logs to systemd-journald. It writes log records as native entries with
// searchable fields, and defines the conditions that have a MESSAGE_ID.
//
// All other code uses slog. Only this package knows how fields may be named, and what to do with an
// entry that journald does not accept.
package journal

import "log/slog"

// Condition is an event in a node's DNS that an administrator may want to search for, be alerted
// to, or have explained (journalctl -x). The zero Condition is none.
//
// To add one, add a constant, its entry in conditions (`systemd-id128 new` generates the ID, which
// must never change or be reused), its Attr in the log call, and a test that sees it logged. Then
// run `go test ./internal/sys/journal -run Rendered -update`, which writes it to the man page and
// journald's catalog.
type Condition uint8

// Conditions of node-dns, the daemon.
const (
	Ready Condition = iota + 1
	NotReady
	Stopping
	HandedOver
	TookOver
	HandoverFailed
	Listening
	ListenFailed
	UpstreamDown
	UpstreamUp
	UpstreamsDown
	UpstreamsUp
	UpstreamLoop
	ConfigFault
	ConfigTaken
	ReloadFailed
	Problem
	ProblemSolved
	ClusterSynced
	ClusterAway
	ClusterStale
	ClusterForbidden
	ClusterSnapshot
	BusSet
	BusName
	BusAway
	OutOfSockets
	LimitMet
	LimitOver
	QueryPanic
	TaskPanic
	TaskFailed
	Hangs
)

// Conditions of origin-dns-dispatcher, the hook.
const (
	ResolvConfPointed Condition = iota + 101
	ResolvConfRestored
	ResolvConfHeld
	ResolvConfWaiting
	ResolvConfBlocked
	ResolvConfFought
	HookFailed
	HookHung
	Died
)

// Explanation is the static description of a Condition.
type Explanation struct {
	Name string // as in condition=NAME: lower case with hyphens
	ID   string // the MESSAGE_ID: 32 hexadecimal digits
	When string // what has happened, in complete sentences
	Do   string // what to do about it; "" if nothing
}

// conditions has the explanation of every Condition.
var conditions = map[Condition]Explanation{
	Ready: {
		Name: "ready", ID: "f8257288e24b44fe942466b6f896605d",
		When: "node-dns now answers queries on at least one address.",
	},
	NotReady: {
		Name: "not-ready", ID: "fba7c6665d1e43638ef32ef4bebc1ac5",
		When: "node-dns no longer listens: it has no address left, or the cluster domain is unknown.",
		Do:   "node-dns status shows the addresses and the reason.",
	},
	Stopping: {
		Name: "stopping", ID: "a512949a650c4b52ba5f81562cf34a7a",
		When: "node-dns is stopping, and finishes queries in progress.",
	},
	HandedOver: {
		Name: "handed-over", ID: "e535ffdd00da433d9c3d8b42829b1f3c",
		When: "node-dns is restarting. Queries wait for the next process in sockets that systemd holds.",
	},
	TookOver: {
		Name: "took-over", ID: "1cc9c451c4e74bd398e77ad9c567be93",
		When: "node-dns has taken over the previous process's sockets and their queries.",
	},
	HandoverFailed: {
		Name: "handover-failed", ID: "128f29a3ede24784a5495ad8f903262a",
		When: "node-dns could not hand over or take over a process's state: NODE_DNS_ERROR. A restart may lose queries.",
		Do:   "Check that node-dns.service has FileDescriptorStoreMax= and NotifyAccess= as packaged.",
	},
	Listening: {
		Name: "listening", ID: "45b3fc07d53a47dfa61d9f7e13bc7a89",
		When: "node-dns has bound these addresses: NODE_DNS_ADDRESSES.",
	},
	ListenFailed: {
		Name: "listen-failed", ID: "1f71d815ef4f45d8afeed2d11efbeda3",
		When: "node-dns cannot bind these addresses: NODE_DNS_ADDRESSES. It retries every second.",
		Do:   "If an address is in use, ss -lunp 'sport = :53' shows the program.",
	},
	UpstreamDown: {
		Name: "upstream-down", ID: "ec3277a7a9dc401784209e62302049cd",
		When: "The upstream nameserver NODE_DNS_SERVER failed three times in a row: NODE_DNS_ERROR. It is queried last until it answers again.",
		Do:   "Query it from this node: dig @ADDRESS . NS. Check firewalls and the nameserver itself.",
	},
	UpstreamUp: {
		Name: "upstream-up", ID: "4fd2ec95bf0b48ea93d2d1d5faabead9",
		When: "The upstream nameserver NODE_DNS_SERVER, which was down, answers again.",
	},
	UpstreamsDown: {
		Name: "upstreams-down", ID: "2aab54eb89a742b9a8150fed9760ab96",
		When: "All upstream nameservers of these domains are down (\".\" is all domains without their own): NODE_DNS_DOMAINS. Only cached names of these domains are answered.",
		Do:   "Check the node's link, default route and firewall. node-dns status shows each nameserver's last error.",
	},
	UpstreamsUp: {
		Name: "upstreams-up", ID: "032bc966b54a44539a40cb21cfeac199",
		When: "An upstream nameserver of these domains answers again, after all were down: NODE_DNS_DOMAINS.",
	},
	UpstreamLoop: {
		Name: "upstream-loop", ID: "df382de065df4770a7ec50fa53a5f4c0",
		When: "These upstream nameservers send queries back to this node: NODE_DNS_SERVERS. node-dns does not use them, and probes them every five minutes.",
		Do:   "Give the node a nameserver that does not forward to it, or stop the forwarding there.",
	},
	ConfigFault: {
		Name: "config-fault", ID: "509e17a3819746158f9153e42f2d6be0",
		When: "The configuration has errors. A running node-dns keeps its configuration; a starting one uses the valid part.",
		Do:   "node-dns check-config shows each error with file, line and column.",
	},
	ConfigTaken: {
		Name: "config-taken-over", ID: "7b775aaa8abc479faa4a581c8e3dd78c",
		When: "A change of node-dns.yaml or of the cluster's files is in use.",
	},
	ReloadFailed: {
		Name: "reload-failed", ID: "01d56248cef04c89bdf024194fcfe7d1",
		When: "A reload (SIGHUP, systemctl reload) failed. The running configuration stays.",
		Do:   "node-dns check-config shows each error with file, line and column.",
	},
	Problem: {
		Name: "problem", ID: "d1840814c0a147748b801fe3270be887",
		When: "node-dns has found a problem: NODE_DNS_PROBLEM. While it lasts, node-dns status shows it after \"!\".",
		Do:   "Follow the advice in the text, or see the troubleshooting page.",
	},
	ProblemSolved: {
		Name: "problem-solved", ID: "1598377b71f346768fa903d377c69d8b",
		When: "An earlier problem is solved: NODE_DNS_PROBLEM.",
	},
	ClusterSynced: {
		Name: "cluster-synced", ID: "ed73c5c2a68d43618747780b135f4528",
		When: "Cluster names are answered from the current state of the Kubernetes API.",
	},
	ClusterAway: {
		Name: "cluster-away", ID: "ff4c2f5c04114238b6d168b96c096bf6",
		When: "node-dns cannot reach the Kubernetes API (NODE_DNS_PHASE): NODE_DNS_ERROR. It answers from the last known state.",
		Do:   "Check that the API server runs and that this node reaches it.",
	},
	ClusterStale: {
		Name: "cluster-stale", ID: "174f963d75d3444781c8d8e0725a8546",
		When: "node-dns could not watch the Kubernetes API for a minute or longer. It answers cluster names from the last known state.",
		Do:   "See cluster-away. Pods that have moved since then have their old addresses.",
	},
	ClusterForbidden: {
		Name: "cluster-forbidden", ID: "cdcfb58d8ce144b697f7d319921b1302",
		When: "The Kubernetes API rejects node-dns's credentials, or rights are missing.",
		Do:   "node-dns status shows the missing rights; contrib/cluster-role.yaml has all of them.",
	},
	ClusterSnapshot: {
		Name: "cluster-snapshot", ID: "0dbd736cfeaf49139390177a2c176f07",
		When: "node-dns has started with a saved cluster state of this age: NODE_DNS_AGE.",
	},
	BusSet: {
		Name: "bus-set", ID: "13ad225c48ae4feeb82909408a662b2a",
		When: "A program has set nameservers or options over D-Bus: NODE_DNS_BY. They win over all other sources: NODE_DNS_SERVERS.",
	},
	BusName: {
		Name: "bus-name", ID: "fd4233521af64a36b92ec319a2a7121f",
		When: "node-dns owns this name on the system bus: NODE_DNS_NAME.",
	},
	BusAway: {
		Name: "bus-away", ID: "fd24b43d74b14f5f90e2583a7665c9a6",
		When: "node-dns is not on the system bus, or does not own one of its names there, and retries. D-Bus clients cannot set nameservers or read its state.",
		Do:   "Usually a dnsmasq still runs and owns the name. If the bus refuses it, /usr/share/dbus-1/system.d/node-dns.conf is missing.",
	},
	OutOfSockets: {
		Name: "out-of-sockets", ID: "75f81aca85a842ec8ad2c1540faa051e",
		When: "node-dns had no socket to query an upstream nameserver: the process has reached its limit of open files.",
		Do:   "Raise LimitNOFILE= of node-dns.service, or lower dnsForwardMax. A silent upstream nameserver is the usual cause.",
	},
	LimitMet: {
		Name: "limit-met", ID: "7b5eadd849c14eedb34572c887c76db3",
		When: "The limit NODE_DNS_LIMIT rejects queries or connections, NODE_DNS_COUNT so far. For refused clients, NODE_DNS_CLIENT is one of them.",
		Do:   "node-dns status counts them. The usual cause is a client that sends too many queries: see node-dns monitor. The limits are keys of node-dns.yaml.",
	},
	LimitOver: {
		Name: "limit-over", ID: "a04be1883c7347f585eb6580a50374cb",
		When: "The limit NODE_DNS_LIMIT was not reached for a minute. NODE_DNS_COUNT queries or connections were rejected within NODE_DNS_FOR.",
	},
	QueryPanic: {
		Name: "query-panic", ID: "aed2744f66d742afa80b6afd2712fbfe",
		When: "The program panicked while it answered a query, which got SERVFAIL. No other was affected.",
		Do:   "Report it with the query and the stack, which journalctl -o verbose shows.",
	},
	TaskPanic: {
		Name: "task-panic", ID: "6f859a4c751c4baeb79ff90b184f5ee1",
		When: "The program panicked in a task, which is restarted: NODE_DNS_TASK. Queries are still answered.",
		Do:   "Report it with the stack, which journalctl -o verbose shows.",
	},
	TaskFailed: {
		Name: "task-failed", ID: "44f3f1628cdd4e70b85a4ee72034f41f",
		When: "A task failed and is restarted: NODE_DNS_ERROR. Queries are still answered, but its data is not updated.",
		Do:   "Fix the cause that the error names.",
	},
	Hangs: {
		Name: "hangs", ID: "e2df5bd0973549509719ead4ab565172",
		When: "node-dns does not read or finish queries: NODE_DNS_ERROR. While that lasts it does not notify systemd's watchdog, which then restarts it.",
		Do:   "Report it with the last journal entries of the process, which show where it hung.",
	},

	ResolvConfPointed: {
		Name: "resolv-conf-pointed", ID: "9411b6cb133e4c6db00070ee1c6f7215",
		When: "/etc/resolv.conf was written and names this node. Its original is kept in /var/lib/node-dns.",
	},
	ResolvConfRestored: {
		Name: "resolv-conf-restored", ID: "fefa9e3bcfb74f9ba2d3faee42c23230",
		When: "/etc/resolv.conf has the original nameservers again: node-dns does not answer, or a restore was requested.",
		Do:   "If node-dns should run, see systemctl status node-dns.",
	},
	ResolvConfHeld: {
		Name: "resolv-conf-held", ID: "b26af4ef3faa4684a9f9e3b5ddf6d74d",
		When: "/etc/resolv.conf was not changed: NODE_DNS_HELD.",
		Do:   "origin-dns-dispatcher plan shows what would be written, and what prevents it.",
	},
	ResolvConfWaiting: {
		Name: "resolv-conf-waiting", ID: "81f9abc3a5274fbe8760f15d0d0eeecc",
		When: "/etc/resolv.conf will name this node as soon as node-dns answers. It does not answer yet: NODE_DNS_SILENCE.",
		Do:   "While node-dns starts, no action is needed. Otherwise see systemctl status node-dns.",
	},
	ResolvConfBlocked: {
		Name: "resolv-conf-blocked", ID: "602828033ff244668c3c33565e9d4988",
		When: "/etc/resolv.conf cannot be written: it is immutable, or on a read-only file system.",
		Do:   "lsattr /etc/resolv.conf and findmnt -T /etc/resolv.conf show which.",
	},
	ResolvConfFought: {
		Name: "resolv-conf-fought", ID: "d75439d4294d40abb46b225fd93206d0",
		When: "Another program keeps overwriting /etc/resolv.conf: NODE_DNS_OVER. node-dns restores its file up to five times a minute, then waits for five minutes or longer.",
		Do:   "Stop the other program from writing /etc/resolv.conf, or stop node-dns.",
	},
	HookFailed: {
		Name: "hook-failed", ID: "0c48bb8e82f6462999dd9cef37b400b1",
		When: "A run of origin-dns-dispatcher failed at least in part: NODE_DNS_ERROR. Every file has either its old or its new content.",
		Do:   "Fix the cause that the error names, then run origin-dns-dispatcher apply.",
	},
	HookHung: {
		Name: "hook-hung", ID: "1585405dd9284cdbacccb56eeebac82a",
		When: "A run of origin-dns-dispatcher did not end in time and was aborted: NODE_DNS_ERROR.",
		Do:   "The usual cause is a file system or a service that does not answer (NFS, D-Bus).",
	},
	Died: {
		Name: "died", ID: "94dac707ea114fc4b29898f1c66968e5",
		When: "node-dns has ended unexpectedly (NODE_DNS_RESULT). systemd restarts it. If it does not answer within about a second, /etc/resolv.conf gets its original nameservers back.",
		Do:   "See systemctl status node-dns and the last journal entries. The result watchdog means that it hung, a signal that it was killed, an exit code that something was missing.",
	},
}

// Explain returns the explanation of c, or the zero Explanation for no condition.
func (c Condition) Explain() Explanation { return conditions[c] }

// String returns the condition's name.
func (c Condition) String() string { return conditions[c].Name }

// Attr returns the attribute that marks a log record with the condition: condition=NAME in text,
// and MESSAGE_ID in the journal.
func (c Condition) Attr() slog.Attr { return slog.Any("condition", c) }

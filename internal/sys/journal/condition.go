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
		When: "node-dns answers queries on one address at least; it did not before.",
	},
	NotReady: {
		Name: "not-ready", ID: "fba7c6665d1e43638ef32ef4bebc1ac5",
		When: "node-dns listens nowhere any more: no address that it is to listen on is left, or the cluster domain is not known.",
		Do:   "node-dns status says which addresses it wants and what is in the way.",
	},
	Stopping: {
		Name: "stopping", ID: "a512949a650c4b52ba5f81562cf34a7a",
		When: "node-dns was told to stop. It takes no more queries and ends those under way.",
	},
	HandedOver: {
		Name: "handed-over", ID: "e535ffdd00da433d9c3d8b42829b1f3c",
		When: "node-dns is being restarted, and has left its sockets to systemd: queries wait there for the one that starts.",
	},
	TookOver: {
		Name: "took-over", ID: "1cc9c451c4e74bd398e77ad9c567be93",
		When: "node-dns has taken over the sockets of the one before it, and answers the queries that waited there.",
	},
	HandoverFailed: {
		Name: "handover-failed", ID: "128f29a3ede24784a5495ad8f903262a",
		When: "Something cannot be handed over to the next node-dns, or was not taken over from the last: NODE_DNS_ERROR. Queries that come during a restart may be lost.",
		Do:   "See that node-dns.service is as packaged: FileDescriptorStoreMax= and NotifyAccess= are what this needs.",
	},
	Listening: {
		Name: "listening", ID: "45b3fc07d53a47dfa61d9f7e13bc7a89",
		When: "node-dns has bound these addresses: NODE_DNS_ADDRESSES.",
	},
	ListenFailed: {
		Name: "listen-failed", ID: "1f71d815ef4f45d8afeed2d11efbeda3",
		When: "node-dns cannot bind these addresses: NODE_DNS_ADDRESSES. It tries again each second, and says so when it can.",
		Do:   "Where the address is in use, ss -lunp 'sport = :53' names the program that has it.",
	},
	UpstreamDown: {
		Name: "upstream-down", ID: "ec3277a7a9dc401784209e62302049cd",
		When: "The upstream nameserver NODE_DNS_SERVER failed three times in a row: NODE_DNS_ERROR. It is asked last until it answers again.",
		Do:   "Ask it from this node, by dig . NS and its address. A firewall, or the nameserver itself, is the usual cause.",
	},
	UpstreamUp: {
		Name: "upstream-up", ID: "4fd2ec95bf0b48ea93d2d1d5faabead9",
		When: "The upstream nameserver NODE_DNS_SERVER, which was down, answers again.",
	},
	UpstreamsDown: {
		Name: "upstreams-down", ID: "2aab54eb89a742b9a8150fed9760ab96",
		When: "All upstream nameservers are down of these domains (\".\": all that have no others): NODE_DNS_DOMAINS. Of their names only those in the cache are answered.",
		Do:   "See to the node's network first: its link, its default route, its firewall. node-dns status shows each nameserver and its last error.",
	},
	UpstreamsUp: {
		Name: "upstreams-up", ID: "032bc966b54a44539a40cb21cfeac199",
		When: "An upstream nameserver answers again, after all of them were down, of these domains: NODE_DNS_DOMAINS.",
	},
	UpstreamLoop: {
		Name: "upstream-loop", ID: "df382de065df4770a7ec50fa53a5f4c0",
		When: "These upstream nameservers send our own queries back to this node: NODE_DNS_SERVERS. They are left out, and probed again every five minutes.",
		Do:   "Give the node a nameserver that does not forward to it, or end the forwarding there.",
	},
	ConfigFault: {
		Name: "config-fault", ID: "509e17a3819746158f9153e42f2d6be0",
		When: "The configuration has faults. A running node-dns keeps what it has; one that starts serves what the rest of it says.",
		Do:   "node-dns check-config names each fault with file, line and column. A mended file is taken over as it is seen.",
	},
	ConfigTaken: {
		Name: "config-taken-over", ID: "7b775aaa8abc479faa4a581c8e3dd78c",
		When: "A change of the configuration is in force: of node-dns.yaml, or of the cluster's files.",
	},
	ReloadFailed: {
		Name: "reload-failed", ID: "01d56248cef04c89bdf024194fcfe7d1",
		When: "A reload that was asked for (SIGHUP, systemctl reload) changed nothing: the running configuration stays.",
		Do:   "node-dns check-config names each fault with file, line and column.",
	},
	Problem: {
		Name: "problem", ID: "d1840814c0a147748b801fe3270be887",
		When: "There is something that an admin should see to: NODE_DNS_PROBLEM. As long as it lasts node-dns status shows it, after \"!\".",
		Do:   "What it says. The page on troubleshooting explains each.",
	},
	ProblemSolved: {
		Name: "problem-solved", ID: "1598377b71f346768fa903d377c69d8b",
		When: "What was logged as a problem before is one no more: NODE_DNS_PROBLEM.",
	},
	ClusterSynced: {
		Name: "cluster-synced", ID: "ed73c5c2a68d43618747780b135f4528",
		When: "The cluster's Services and EndpointSlices are known and watched: its names are answered from what the Kubernetes API says now.",
	},
	ClusterAway: {
		Name: "cluster-away", ID: "ff4c2f5c04114238b6d168b96c096bf6",
		When: "The Kubernetes API cannot be asked (NODE_DNS_PHASE): NODE_DNS_ERROR. What is known is served on.",
		Do:   "See whether the API server runs, and whether this node reaches it. The kubeconfig is read again when it changes.",
	},
	ClusterStale: {
		Name: "cluster-stale", ID: "174f963d75d3444781c8d8e0725a8546",
		When: "The Kubernetes API could not be watched for a minute or longer: the cluster's names are answered from what was known before.",
		Do:   "As for cluster-away. Pods that have moved since are answered with their old addresses.",
	},
	ClusterForbidden: {
		Name: "cluster-forbidden", ID: "cdcfb58d8ce144b697f7d319921b1302",
		When: "The Kubernetes API does not let node-dns read what it needs: the credentials are refused, or rights are missing.",
		Do:   "node-dns status names the rights that are missing; contrib/cluster-role.yaml has them all.",
	},
	ClusterSnapshot: {
		Name: "cluster-snapshot", ID: "0dbd736cfeaf49139390177a2c176f07",
		When: "node-dns has started and serves the cluster's names from what was known before, which is this old: NODE_DNS_AGE. Once the Kubernetes API answers it is replaced.",
	},
	BusSet: {
		Name: "bus-set", ID: "13ad225c48ae4feeb82909408a662b2a",
		When: "A program has set nameservers or options over D-Bus, as it would with dnsmasq: NODE_DNS_BY. They win over all other sources: NODE_DNS_SERVERS.",
	},
	BusName: {
		Name: "bus-name", ID: "fd4233521af64a36b92ec319a2a7121f",
		When: "node-dns owns this name on the system bus: NODE_DNS_NAME.",
	},
	BusAway: {
		Name: "bus-away", ID: "fd24b43d74b14f5f90e2583a7665c9a6",
		When: "node-dns is not on the system bus, or has not got a name there that it is to have, and tries again. Nobody can set nameservers or look at it there; names are resolved all the same.",
		Do:   "Another owner of the name is usually a dnsmasq that still runs; a refusal, that /usr/share/dbus-1/system.d/node-dns.conf is missing.",
	},
	OutOfSockets: {
		Name: "out-of-sockets", ID: "75f81aca85a842ec8ad2c1540faa051e",
		When: "There was no socket to ask an upstream nameserver from: the process has as many files open as it may.",
		Do:   "Raise LimitNOFILE= of node-dns.service, or lower dnsForwardMax. A silent upstream nameserver is the usual cause.",
	},
	LimitMet: {
		Name: "limit-met", ID: "7b5eadd849c14eedb34572c887c76db3",
		When: "Queries, or connections, are not served because of a bound: NODE_DNS_LIMIT, NODE_DNS_COUNT of them so far. Where they are of a client that may not ask, NODE_DNS_CLIENT is one such.",
		Do:   "node-dns status counts them. A client that asks without measure is the usual cause: node-dns monitor shows who asks what. The bounds are keys of node-dns.yaml.",
	},
	LimitOver: {
		Name: "limit-over", ID: "a04be1883c7347f585eb6580a50374cb",
		When: "A bound, NODE_DNS_LIMIT, has not been met for a minute. NODE_DNS_COUNT queries or connections were not served, within NODE_DNS_FOR.",
	},
	QueryPanic: {
		Name: "query-panic", ID: "aed2744f66d742afa80b6afd2712fbfe",
		When: "A fault of the program was hit while a query was answered; that query got SERVFAIL, and nothing else was touched.",
		Do:   "Report it with the query and the stack, which journalctl -o verbose shows.",
	},
	TaskPanic: {
		Name: "task-panic", ID: "6f859a4c751c4baeb79ff90b184f5ee1",
		When: "A fault of the program was hit in a task, which is started again: NODE_DNS_TASK. Queries are answered meanwhile.",
		Do:   "Report it with the stack, which journalctl -o verbose shows.",
	},
	TaskFailed: {
		Name: "task-failed", ID: "44f3f1628cdd4e70b85a4ee72034f41f",
		When: "A task failed and is started again: NODE_DNS_ERROR. What it watches is not seen meanwhile; queries are answered.",
		Do:   "What the error says is missing.",
	},
	Hangs: {
		Name: "hangs", ID: "e2df5bd0973549509719ead4ab565172",
		When: "node-dns does not answer itself: NODE_DNS_ERROR. While that lasts it gives systemd's watchdog no sign of life, which ends it and starts it again.",
		Do:   "Report it with what the journal has of its end, which shows where it hung.",
	},

	ResolvConfPointed: {
		Name: "resolv-conf-pointed", ID: "9411b6cb133e4c6db00070ee1c6f7215",
		When: "/etc/resolv.conf was written and names this node. Its original is kept in /var/lib/node-dns.",
	},
	ResolvConfRestored: {
		Name: "resolv-conf-restored", ID: "fefa9e3bcfb74f9ba2d3faee42c23230",
		When: "/etc/resolv.conf has the original nameservers again: node-dns does not answer, or a restore was asked for.",
		Do:   "Where node-dns ought to run: systemctl status node-dns. It is pointed back once node-dns answers.",
	},
	ResolvConfHeld: {
		Name: "resolv-conf-held", ID: "b26af4ef3faa4684a9f9e3b5ddf6d74d",
		When: "/etc/resolv.conf was left as it is: NODE_DNS_HELD.",
		Do:   "origin-dns-dispatcher plan says what would be written, and what is in the way.",
	},
	ResolvConfWaiting: {
		Name: "resolv-conf-waiting", ID: "81f9abc3a5274fbe8760f15d0d0eeecc",
		When: "/etc/resolv.conf will be pointed at this node once node-dns answers, which it does not yet: NODE_DNS_SILENCE.",
		Do:   "Nothing while node-dns starts. Else: systemctl status node-dns.",
	},
	ResolvConfBlocked: {
		Name: "resolv-conf-blocked", ID: "602828033ff244668c3c33565e9d4988",
		When: "/etc/resolv.conf cannot be written: it is immutable, or on a read-only file system.",
		Do:   "lsattr /etc/resolv.conf and findmnt -T /etc/resolv.conf show which.",
	},
	ResolvConfFought: {
		Name: "resolv-conf-fought", ID: "d75439d4294d40abb46b225fd93206d0",
		When: "Another program writes /etc/resolv.conf over ours again and again: NODE_DNS_OVER. After five times in a minute it is left to that program, and tried again after five minutes, and then less often.",
		Do:   "Have the other program leave /etc/resolv.conf alone, or stop node-dns.",
	},
	HookFailed: {
		Name: "hook-failed", ID: "0c48bb8e82f6462999dd9cef37b400b1",
		When: "A run of origin-dns-dispatcher failed, in whole or in part: NODE_DNS_ERROR. Every file is the old or the new one, whole.",
		Do:   "Mend what the error names, and run origin-dns-dispatcher apply.",
	},
	HookHung: {
		Name: "hook-hung", ID: "1585405dd9284cdbacccb56eeebac82a",
		When: "A run of origin-dns-dispatcher did not end in time and was given up: NODE_DNS_ERROR.",
		Do:   "A file system or a service that does not answer (NFS, D-Bus) is the usual cause.",
	},
	Died: {
		Name: "died", ID: "94dac707ea114fc4b29898f1c66968e5",
		When: "node-dns has ended and was not told to (NODE_DNS_RESULT). systemd starts it again; if it does not answer within a second or so, /etc/resolv.conf gets its original nameservers back.",
		Do:   "systemctl status node-dns, and its last lines in the journal: a watchdog says that it hung, a signal who killed it, an exit code what it lacked.",
	},
}

// Explain returns the explanation of c, or the zero Explanation for no condition.
func (c Condition) Explain() Explanation { return conditions[c] }

// String returns the condition's name.
func (c Condition) String() string { return conditions[c].Name }

// Attr returns the attribute that marks a log record with the condition: condition=NAME in text,
// and MESSAGE_ID in the journal.
func (c Condition) Attr() slog.Attr { return slog.Any("condition", c) }

package view

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/nodeconfig"
)

// asker is the client that an admin's question is answered for.
type asker struct {
	addr, local netip.AddrPort
	namespace   string             // pods of this namespace get a search list walk; empty for no walk
	pod         string             // NAMESPACE/NAME; empty if the client is not a known pod
	isClient    bool               // whether the question names a client other than the admin
	refusal     *dnsserver.Refusal // nil if the client may send queries
}

// askerOf returns this host, whose questions are never refused, or the client that the question
// names.
func (v *View) askerOf(m *dns.Msg, question control.Question) (asker, error) {
	node := v.policy().NodeIP
	if question.As == "" {
		loopback := netip.AddrFrom4([4]byte{127, 0, 0, 1})
		return asker{addr: netip.AddrPortFrom(loopback, 0), local: netip.AddrPortFrom(node, 0), namespace: question.Namespace}, nil
	}
	addr, err := v.clientAddr(question.As)
	if err != nil {
		return asker{}, err
	}
	a := asker{addr: netip.AddrPortFrom(addr, 0), local: v.listenerFor(addr, node), isClient: true, namespace: v.resolver.NamespaceOf(addr)}
	if known := v.resolver.Known(); known != nil {
		a.pod = known.PodAt(addr)
	}
	a.refusal, err = v.server.RefusalOf(m, a.addr, a.local)
	return a, err
}

// clientAddr returns the address of a client, or of a pod that the node's watch knows.
func (v *View) clientAddr(as string) (netip.Addr, error) {
	if addr, err := netip.ParseAddr(as); err == nil {
		return addr.Unmap().WithZone(""), nil
	}
	quoted := nodeconfig.Quote(as)
	if namespace, name, ok := strings.Cut(as, "/"); !ok || !isNamespace(namespace) || !isPodName(name) {
		return netip.Addr{}, control.MistakeError{Why: "invalid client " + quoted + "; expected an address or a pod as NAMESPACE/NAME"}
	}
	known := v.resolver.Known()
	if known == nil {
		return netip.Addr{}, control.MistakeError{Why: "the pod " + quoted + " is unknown because the Kubernetes API has not been read; give its address"}
	}
	addrs := known.AddrsOf(as)
	if len(addrs) == 0 {
		why := "the pod " + quoted + " is unknown on this node or has no address of its own"
		if walk := v.autopathStatus(v.policy()); !walk.On {
			why += "; the node's pods are watched for autopath, which is off: " + walk.Why
		}
		return netip.Addr{}, control.MistakeError{Why: why + "; give its address"}
	}
	return addrs[0], nil
}

// podOfClient returns the pod with that name or address. Both results are empty if no pod is known.
func (v *View) podOfClient(as string) (namespace, pod string, err error) {
	addr, err := v.clientAddr(as)
	if err != nil {
		return "", "", err
	}
	if !strings.Contains(as, "/") {
		known := v.resolver.Known()
		if known == nil {
			return "", "", nil
		}
		as = known.PodAt(addr)
	}
	namespace, pod, _ = strings.Cut(as, "/")
	return namespace, pod, nil
}

// listenerFor returns the address that the client would ask: the node's address if the server
// listens on it, or else the first one of the client's family.
func (v *View) listenerFor(client, node netip.Addr) netip.AddrPort {
	listening := v.Listening()
	for _, is := range []func(netip.AddrPort) bool{
		func(at netip.AddrPort) bool { return at.Addr() == node },
		func(at netip.AddrPort) bool { return at.Addr().Is4() == client.Is4() },
	} {
		if i := slices.IndexFunc(listening, is); i >= 0 {
			return listening[i]
		}
	}
	return netip.AddrPortFrom(node, 0)
}

// isRefusedAlways reports whether the client gets no answer at all.
func (a asker) isRefusedAlways() bool { return a.refusal != nil && !a.refusal.OnlyOfMisses }

// isRefused reports whether the client gets no answer to q, which the Handler has answered.
func (a asker) isRefused(q *dnsserver.Query) bool {
	return a.refusal != nil && (a.isRefusedAlways() || !q.Cached && q.Origin == "")
}

// shown returns the client for display, or nil if it is the admin.
func (a asker) shown(isRefused bool) *control.Client {
	if !a.isClient {
		return nil
	}
	return &control.Client{Address: a.addr.Addr().String(), Pod: a.pod, Refused: isRefused}
}

package policy

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

// MayHaveOther returns the addresses of p at which another daemon of this host may answer. Other
// hosts may answer at an address that is not local, such as one that moves between hosts, and the
// cluster's DNS pods at one of Intercept. bound are the addresses that this daemon has.
func (p *Policy) MayHaveOther(bound []netip.AddrPort) []netip.AddrPort {
	return slices.DeleteFunc(slices.Clone(p.Listen), func(at netip.AddrPort) bool {
		return !p.Net.IsLocal(at.Addr()) || slices.Contains(bound, at) || slices.Contains(p.Intercept, at.Addr())
	})
}

// Identified is the answer to a question for the nameserver's name at an address.
type Identified struct {
	At  netip.AddrPort
	By  string
	Err error
}

// OtherNodeDNS returns the node-dns that answers, or "". One that was found before stays until it
// has closed its sockets, because systemd keeps them open while it restarts.
func OtherNodeDNS(before string, answers []Identified) string {
	stays := false
	for _, a := range answers {
		if a.Err == nil && nameserver.IsNodeDNS(a.By) {
			return fmt.Sprintf("%s at %v", a.By, a.At)
		}
		stays = stays || a.Err != nil && !errors.Is(a.Err, unix.ECONNREFUSED)
	}
	if stays {
		return before
	}
	return ""
}

// LeaveTo returns p for a host that another node-dns serves: nothing is served or intercepted, and
// the API is not watched for it. If other is empty, it returns p itself.
func (p *Policy) LeaveTo(other string) *Policy {
	if other == "" {
		return p
	}
	left := *p
	left.LeftTo, left.Listen, left.Spare, left.Intercept, left.API = other, nil, nil, nil, API{}
	return &left
}

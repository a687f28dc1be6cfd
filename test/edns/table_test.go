package edns

import (
	"bytes"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/node-dns/node-dns/internal/test/dnstest"
)

// table returns all rows.
func table() []row { return slices.Concat(headerRows, countRows, questionRows, ednsRows, sizeRows) }

// TestTable sends each message to a daemon that does not know the answer, and then again to the
// same one, which does.
func TestTable(t *testing.T) {
	t.Parallel()
	upstream := dnstest.NewServer(t, world)
	daemon := serve(t, upstream)
	for _, r := range table() {
		for _, network := range []string{"udp", "tcp"} {
			t.Run(r.id+" "+network, func(t *testing.T) {
				want := r.want
				if own := map[string]string{"udp": r.udp, "tcp": r.tcp}[network]; own != "" {
					want = own
				}
				switch want {
				case notSent:
				case dropped:
					staysSilent(t, daemon, network, named(r.wire, unused()))
				case closed:
					p := dial(t, network, daemon)
					if p.send(r.wire); !p.isClosed() {
						t.Error("the connection stays open, or the daemon answers")
					}
				default:
					answersTwice(t, daemon, upstream, network, r, want)
				}
			})
		}
	}
}

// answersTwice checks that a message gets the wanted answer, and the same bytes when it is sent
// again, except for the ID and the TTLs.
func answersTwice(t *testing.T, daemon netip.AddrPort, upstream *dnstest.Server, network string, r row, want string) {
	t.Helper()
	label := unused()
	p := dial(t, network, daemon)
	var first []byte
	var counts []int
	for _, time := range []string{"at first", "from memory"} {
		asked := named(r.wire, label)
		asked[0], asked[1] = byte(rand.N(256)), byte(rand.N(256))
		response := p.ask(asked)
		line, faults := judge(asked, response, network)
		if line != want || len(faults) > 0 {
			t.Errorf("%s: %s; want %s; faults %q\nasked %x\n  got %x", time, line, want, faults, asked, response)
			return
		}
		response = withoutTTL(response)
		if first == nil {
			first = response
		}
		if !bytes.Equal(first[2:], response[2:]) {
			t.Errorf("%s: different response to %x\n%x\n%x", time, asked, first, response)
		}
		counts = append(counts, askedFor(upstream, label))
	}
	if r.asked != anyhow && (counts[0] > 0) != (r.asked != never) || r.asked == remembered && counts[1] > counts[0] || r.asked == eachTime && counts[1] == counts[0] {
		t.Errorf("the upstream got %d queries, and then %d", counts[0], counts[1]-counts[0])
	}
}

// staysSilent checks that the daemon answers only the query sent after the message.
func staysSilent(t *testing.T, daemon netip.AddrPort, network string, asked []byte) {
	t.Helper()
	p := dial(t, network, daemon)
	p.send(asked)
	behind := named(query(www), unused())
	behind[0], behind[1] = 0xab, 0xcd
	response := p.ask(behind)
	if line, faults := judge(behind, response, network); line != "NOERROR an=1" || len(faults) > 0 {
		t.Errorf("%s; faults %q: %x", line, faults, response)
	}
}

// askedFor returns the number of upstream queries for names with that label.
func askedFor(upstream *dnstest.Server, label string) (n int) {
	for _, q := range upstream.Received() {
		if strings.Contains(strings.ToLower(q.Msg.Question[0].Name), label) {
			n++
		}
	}
	return n
}

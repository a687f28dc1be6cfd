package forward

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/exchange"
)

// withOPT adds an OPT record with options to a response. The OPT record has the high bits of rcode.
func withOPT(response []byte, rcode int, options []byte) []byte {
	response[11]++
	response[3] = response[3]&0xf0 | byte(rcode&0xf)
	response = append(response, 0, 0, byte(dns.TypeOPT), 0x04, 0xd0, byte(rcode>>4), 0, 0, 0, 0, byte(len(options)))
	return append(response, options...)
}

// cookieOption returns a cookie option with a client cookie and a server cookie.
func cookieOption(client []byte, server string) []byte {
	option := []byte{0, byte(dns.EDNS0COOKIE), 0, byte(len(client) + len(server))}
	return append(append(option, client...), server...)
}

// refusal returns a response without records.
func refusal(query []byte, rcode int) []byte {
	response := answerTo(query, trueAddr)[:exchange.QuestionEnd(query)]
	response[7] = 0
	response[3] |= byte(rcode)
	return response
}

const (
	serverCookie = "8octets."
	nextCookie   = "longer: sixteen."
)

// silentManner is the row whose server drops some queries, so its test waits for a timeout.
const silentManner = "a firewall that lets the option not pass"

// cookieManners lists how servers, forwarders and firewalls treat cookies. cookie is the one in the
// query, and n the number of earlier queries.
var cookieManners = []struct {
	name   string
	answer func(query, cookie []byte, overTCP bool, n int) [][]byte

	questions   int
	withCookie  int    // queries over UDP with a cookie
	withServers int    // of these, with a server cookie
	mismatched  uint64 // responses
	overTCP     uint64
	lost        int // questions
}{
	{"server with cookie support", func(query, cookie []byte, _ bool, _ int) [][]byte {
		return speak(query, cookie, serverCookie)
	}, 20, 20, 19, 0, 0, 0},
	{"server that changes its cookie", func(query, cookie []byte, _ bool, n int) [][]byte {
		return speak(query, cookie, []string{serverCookie, nextCookie}[n%2])
	}, 20, 20, 19, 0, 0, 0},
	{"server without cookie support", func(query, cookie []byte, _ bool, _ int) [][]byte {
		return [][]byte{withOPT(answerTo(query, trueAddr), 0, nil)}
	}, 20, 1, 0, 0, 0, 0},
	{"server without EDNS support", func(query, cookie []byte, _ bool, _ int) [][]byte {
		return [][]byte{answerTo(query, trueAddr)}
	}, 20, 1, 0, 0, 0, 0},
	{"server that requires its cookie", func(query, cookie []byte, overTCP bool, _ int) [][]byte {
		if !overTCP && !bytes.HasSuffix(cookie, []byte(serverCookie)) {
			return [][]byte{withOPT(refusal(query, 0), dns.RcodeBadCookie, cookieOption(cookie, serverCookie))}
		}
		return speak(query, cookie, serverCookie)
	}, 20, 21, 20, 0, 0, 0},
	{"server that always returns BADCOOKIE", func(query, cookie []byte, overTCP bool, _ int) [][]byte {
		if !overTCP && len(cookie) > 0 {
			return [][]byte{withOPT(refusal(query, 0), dns.RcodeBadCookie, cookieOption(cookie[:exchange.ClientCookie], serverCookie))}
		}
		return speak(query, cookie, serverCookie)
	}, 20, 40, 39, 0, 20, 0},
	{"server that returns FORMERR to the option", func(query, cookie []byte, _ bool, _ int) [][]byte {
		if len(cookie) > 0 {
			return [][]byte{refusal(query, dns.RcodeFormatError)}
		}
		return [][]byte{withOPT(answerTo(query, trueAddr), 0, nil)}
	}, 20, 1, 0, 0, 0, 0},
	{"server that returns BADVERS to the option", func(query, cookie []byte, _ bool, _ int) [][]byte {
		if len(cookie) > 0 {
			return [][]byte{withOPT(refusal(query, 0), dns.RcodeBadVers, nil)}
		}
		return [][]byte{withOPT(answerTo(query, trueAddr), 0, nil)}
	}, 20, 1, 0, 0, 0, 0},
	{silentManner, func(query, cookie []byte, _ bool, _ int) [][]byte {
		if len(cookie) > 0 {
			return nil
		}
		return [][]byte{withOPT(answerTo(query, trueAddr), 0, nil)}
	}, 20, 1, 0, 0, 0, 0},
	{"forwarder that returns another client's cookie (FRITZ!Box)", func(query, cookie []byte, _ bool, _ int) [][]byte {
		return [][]byte{withOPT(answerTo(query, trueAddr), 0, cookieOption([]byte("another!"), serverCookie))}
	}, 20, 1, 0, 0, 0, 0},
	{"forwarder with cached responses without cookie (Envoy issue 42836)", func(query, cookie []byte, _ bool, n int) [][]byte {
		if n%4 == 3 {
			return [][]byte{withOPT(answerTo(query, trueAddr), 0, nil)}
		}
		return speak(query, cookie, serverCookie)
	}, 4, 4, 3, 1, 1, 0}, // over TCP it has one again
	{"server that stops supporting cookies, without TCP", func(query, cookie []byte, overTCP bool, n int) [][]byte {
		switch {
		case overTCP:
			return nil
		case n > 0:
			return [][]byte{withOPT(answerTo(query, trueAddr), 0, nil)}
		}
		return speak(query, cookie, serverCookie)
	}, 20, 4, 3, 3, 3, 3},
	{"server that stops supporting cookies", func(query, cookie []byte, _ bool, n int) [][]byte {
		if n > 0 {
			return [][]byte{withOPT(answerTo(query, trueAddr), 0, nil)}
		}
		return speak(query, cookie, serverCookie)
	}, 20, 2, 1, 1, 1, 0},
}

// speak answers like a server that supports cookies.
func speak(query, cookie []byte, own string) [][]byte {
	if len(cookie) < exchange.ClientCookie {
		return [][]byte{withOPT(answerTo(query, trueAddr), 0, nil)}
	}
	return [][]byte{withOPT(answerTo(query, trueAddr), 0, cookieOption(cookie[:exchange.ClientCookie], own))}
}

// TestCookies: whatever a server does with cookies, every question gets the right answer, with
// lanes and without. The exception is a server that answers differently over UDP and not at all
// over TCP.
func TestCookies(t *testing.T) {
	t.Parallel()
	for _, row := range cookieManners {
		for road, lanes := range map[string]int{"lanes": 1, "Handler": 0} {
			t.Run(row.name+"/"+road, func(t *testing.T) {
				t.Parallel()
				n := -1
				p := newPeer(t, func(query []byte, overTCP bool) [][]byte {
					if nameIn(t, query) == "." { // a check
						return [][]byte{withOPT(answerTo(query, trueAddr), 0, nil)}
					}
					n++
					return row.answer(query, exchange.CookieSent(query), overTCP, n)
				})
				s := newLaneServer(t, func(c *Config) {
					if row.name != silentManner {
						patient(c)
					}
					c.Lanes, c.UDP.Cookies = lanes, true
				}, p.address)
				lost := 0
				for i := range row.questions {
					name := fmt.Sprintf("n%d.example.", i)
					switch got := s.exchange(t, name, dns.TypeA); {
					case got == "SERVFAIL":
						lost++
					case got != "NOERROR "+name+"\t300\tIN\tA\t"+trueAddr.String():
						t.Fatal(got)
					}
				}
				withCookie, withServers := 0, 0
				for _, q := range p.seen() {
					if c := exchange.CookieSent(q.wire); len(c) > 0 && !q.overTCP {
						withCookie++
						if len(c) > exchange.ClientCookie {
							withServers++
						}
					}
				}
				got := s.f.Stats()
				if withCookie != row.withCookie || withServers != row.withServers || got.Mismatched != row.mismatched || got.OverTCP != row.overTCP || lost != row.lost {
					t.Errorf("%d queries with a cookie, %d with the server's, %d mismatched, %d over TCP, %d lost; expected %d, %d, %d, %d, %d",
						withCookie, withServers, got.Mismatched, got.OverTCP, lost, row.withCookie, row.withServers, row.mismatched, row.overTCP, row.lost)
				}
			})
		}
	}
}

// TestCookieForged: once a server supports cookies, a response without our cookie is rejected, even
// if port, ID and question are right.
func TestCookieForged(t *testing.T) {
	for road, lanes := range map[string]int{"lanes": 1, "Handler": 0} {
		t.Run(road, func(t *testing.T) {
			n := 0
			p := newPeer(t, func(query []byte, overTCP bool) [][]byte {
				right := speak(query, exchange.CookieSent(query), serverCookie)
				if n++; n == 1 || overTCP {
					return right
				}
				forged := [][]byte{
					withOPT(answerTo(query, forgedAddr), 0, cookieOption([]byte("guessed!"), serverCookie)),
					withOPT(answerTo(query, forgedAddr), 0, nil),
					answerTo(query, forgedAddr),
				}
				return append(forged[n%len(forged):][:1], right...)
			})
			s := newLaneServer(t, func(c *Config) { patient(c); c.Lanes, c.UDP.Cookies = lanes, true }, p.address)
			const questions = 300
			for i := range questions {
				name := fmt.Sprintf("n%d.example.", i)
				if got := s.exchange(t, name, dns.TypeA); got != "NOERROR "+name+"\t300\tIN\tA\t"+trueAddr.String() {
					t.Fatal(got)
				}
			}
			// With lanes, the right response may arrive before the question is sent over TCP.
			if got := s.f.Stats(); got.Mismatched != questions-1 || got.OverTCP == 0 || got.OverTCP > questions-1 {
				t.Errorf("got stats %+v", got)
			}
		})
	}
}

package forward

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/exchange"
)

const longName = "a-name-of-many-letters.example."

// inLower changes the question of a response to lower case.
func inLower(response []byte) []byte {
	name := response[sizeOfHeader : exchange.QuestionEnd(response)-4]
	copy(name, bytes.ToLower(name))
	return response
}

// TestMixedCase: the letter case of a query is unpredictable, and a UDP response in another case is
// rejected: none of 300 forged responses with the right port and ID is accepted. The client sees
// its own case.
func TestMixedCase(t *testing.T) {
	for road, lanes := range map[string]int{"lanes": 1, "Handler": 0} {
		t.Run(road, func(t *testing.T) {
			p := newPeer(t, func(query []byte, overTCP bool) [][]byte {
				right := answerTo(query, trueAddr)
				if overTCP {
					return [][]byte{right}
				}
				return [][]byte{inLower(answerTo(query, forgedAddr)), right}
			})
			s := newLaneServer(t, func(c *Config) { patient(c); c.Lanes, c.UDP.MixedCase = lanes, true }, p.address)
			forms := map[string]int{}
			for i := range 300 {
				name := fmt.Sprintf("N%d.%s", i, longName)
				got := s.exchange(t, name, dns.TypeA)
				if !strings.EqualFold(got, "NOERROR "+name+"\t300\tIN\tA\t"+trueAddr.String()) {
					t.Fatal(got)
				}
			}
			for _, q := range p.seen() {
				_, rest, _ := strings.Cut(nameIn(t, q.wire), ".")
				forms[rest]++
			}
			if len(forms) < 290 {
				t.Errorf("got %d different forms of the name", len(forms))
			}
			// With lanes, the right response may arrive before the question is sent over TCP.
			if got := s.f.Stats(); got.Mismatched != 300 || got.OverTCP == 0 || got.OverTCP > 300 {
				t.Errorf("got stats %+v", got)
			}
		})
	}
}

// TestManyMismatches: of many mismatched responses to one query, three are read, and they count
// once against the server. The server is still queried in mixed case.
func TestManyMismatches(t *testing.T) {
	p := newPeer(t, func(query []byte, overTCP bool) (responses [][]byte) {
		if overTCP {
			return [][]byte{answerTo(query, trueAddr)}
		}
		for range forgedCopies {
			responses = append(responses, inLower(answerTo(query, forgedAddr)))
		}
		return responses
	})
	s := newLaneServer(t, func(c *Config) { patient(c); c.Lanes, c.UDP.MixedCase = 1, true }, p.address)
	const questions = 20
	for i := range questions {
		name := fmt.Sprintf("n%d.%s", i, longName)
		if got := s.exchange(t, name, dns.TypeA); !strings.EqualFold(got, "NOERROR "+name+"\t300\tIN\tA\t"+trueAddr.String()) {
			t.Fatal(got)
		}
	}
	if got := s.f.Stats(); got.Mismatched > questions*maxStrays || got.OverTCP != questions {
		t.Errorf("got stats %+v", got)
	}
}

// TestMixedCaseManners: whatever a server does with the letter case, every question is answered. A
// server that does not copy the case is queried in lower case once that is known.
func TestMixedCaseManners(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name    string
		answer  func(query []byte, overTCP bool) [][]byte
		overTCP uint64
		mixed   int // queries over UDP, for 20 questions
		lost    int // answered SERVFAIL
	}{
		{"case copied", func(query []byte, _ bool) [][]byte { return [][]byte{answerTo(query, trueAddr)} }, 0, 20, 0},
		{"in lower case", func(query []byte, _ bool) [][]byte { return [][]byte{inLower(answerTo(query, trueAddr))} }, 1, 1, 0},
		{"in lower case over UDP only", func(query []byte, overTCP bool) [][]byte {
			if overTCP {
				return [][]byte{answerTo(query, trueAddr)}
			}
			return [][]byte{inLower(answerTo(query, trueAddr))}
		}, 20, 20, 0},
		{"in lower case, without TCP", func(query []byte, overTCP bool) [][]byte {
			if overTCP {
				return nil
			}
			return [][]byte{inLower(answerTo(query, trueAddr))}
		}, 3, 3, 3},
		{"refused without a question", func(query []byte, _ bool) [][]byte {
			if len(query) == exchange.QuestionEnd(query) {
				return [][]byte{answerTo(query, trueAddr)}
			}
			bare := refusal(query, dns.RcodeFormatError)[:sizeOfHeader]
			bare[5] = 0
			return [][]byte{bare}
		}, 0, 21, 0},
	}
	for _, row := range rows {
		for road, lanes := range map[string]int{"lanes": 1, "Handler": 0} {
			t.Run(row.name+"/"+road, func(t *testing.T) {
				t.Parallel()
				p := newPeer(t, row.answer)
				s := newLaneServer(t, func(c *Config) { patient(c); c.Lanes, c.UDP.MixedCase = lanes, true }, p.address)
				lost := 0
				for i := range 20 {
					name := fmt.Sprintf("n%d.%s", i, longName)
					switch got := s.exchange(t, name, dns.TypeA); {
					case got == "SERVFAIL":
						lost++
					case !strings.EqualFold(got, "NOERROR "+name+"\t300\tIN\tA\t"+trueAddr.String()):
						t.Fatal(got)
					}
				}
				mixed := 0
				for _, q := range p.seen() {
					if name := nameIn(t, q.wire); !q.overTCP && name != strings.ToLower(name) {
						mixed++
					}
				}
				if got := s.f.Stats(); got.OverTCP != row.overTCP || mixed != row.mixed || lost != row.lost {
					t.Errorf("%d over TCP, %d mixed, %d lost; expected %d, %d, %d", got.OverTCP, mixed, lost, row.overTCP, row.mixed, row.lost)
				}
			})
		}
	}
}

// TestGuardOff: by default, queries have neither mixed case nor a cookie.
func TestGuardOff(t *testing.T) {
	for _, lanes := range []int{1, 0} {
		p := newPeer(t, func(query []byte, _ bool) [][]byte { return [][]byte{answerTo(query, trueAddr)} })
		s := newLaneServer(t, func(c *Config) { patient(c); c.Lanes = lanes }, p.address)
		s.exchange(t, longName, dns.TypeA)
		for _, q := range p.seen() {
			if name := nameIn(t, q.wire); name != longName || len(optionsIn(q.wire)) > 0 {
				t.Errorf("got a query for %s with options %x", name, optionsIn(q.wire))
			}
		}
	}
}

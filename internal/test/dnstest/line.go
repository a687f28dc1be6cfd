package dnstest

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// AskLine sends a question and returns the answer on one line, with TTLs. A question is "NAME
// TYPE" plus options: ad, do, ch, size=BYTES (with EDNS; the answer then includes truncation and
// Extended DNS Errors), after=DURATION.
func AskLine(t testing.TB, at netip.AddrPort, question string) string {
	t.Helper()
	fields := strings.Fields(question)
	m := new(dns.Msg).SetQuestion(dns.Fqdn(fields[0]), TypeOf(fields[1]))
	client := dns.Client{Timeout: time.Second}
	for _, option := range fields[2:] {
		switch how, value, _ := strings.Cut(option, "="); how {
		case "ad":
			m.AuthenticatedData = true
		case "ch":
			m.Question[0].Qclass = dns.ClassCHAOS
		case "do":
			m.SetEdns0(1232, true)
		case "size":
			size, err := strconv.ParseUint(value, 10, 16)
			if err != nil {
				t.Fatal(err)
			}
			m.SetEdns0(uint16(size), false)
			client.UDPSize = uint16(size)
		case "after": // for the caller
		default:
			t.Fatalf("%s: unknown option %s", question, option)
		}
	}
	response, _, err := client.ExchangeContext(t.Context(), m, at.String())
	if err != nil {
		return question + ": no response"
	}
	return question + ": " + dns.RcodeToString[response.Rcode] + " " + strings.Join(wordsOf(response), ", ")
}

// TypeOf parses a type name or "TYPE65280" (RFC 3597).
func TypeOf(text string) uint16 {
	if qtype, ok := dns.StringToType[text]; ok {
		return qtype
	}
	n, _ := strconv.ParseUint(strings.TrimPrefix(text, "TYPE"), 10, 16) // 0 is not a query type
	return uint16(n)
}

// wordsOf returns the flags, errors and records of an answer, sorted.
func wordsOf(response *dns.Msg) (words []string) {
	if response.AuthenticatedData {
		words = append(words, "ad")
	}
	if response.Truncated {
		return append(words, "tc") // records of a truncated response are meaningless
	}
	if opt := response.IsEdns0(); opt != nil {
		for _, o := range opt.Option {
			if e, ok := o.(*dns.EDNS0_EDE); ok {
				words = append(words, fmt.Sprint("EDE ", e.InfoCode))
			}
		}
	}
	for _, rr := range response.Answer {
		words = append(words, strings.Join(strings.Fields(rr.String()), " "))
	}
	slices.Sort(words)
	return words
}

// BigRecords returns 3000 bytes of records of big.example.
func BigRecords() string {
	var b strings.Builder
	for i := range 12 {
		fmt.Fprintf(&b, "big.example. 300 IN TXT \"%s%d\"\n", strings.Repeat("x", 230), i)
	}
	return b.String()
}

package dnstest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/miekg/dns"
)

// Costly returns responses to a query for name that are as expensive to parse as possible, keyed by
// their contents. Each has the maximum size of a message over TCP. The ID is 0.
func Costly(name string, qtype uint16) map[string][]byte {
	all := map[string][]byte{}
	add := func(what string, section int, record func(c *costly) bool) {
		c := newCostly(name, qtype)
		for c.room() && record(c) {
			c.n++
		}
		all[what] = c.finish(section)
	}
	long := strings.Repeat("a.", 100)
	for _, rrtype := range slices.Sorted(maps.Keys(dns.TypeToString)) {
		what := dns.TypeToString[rrtype]
		if rrtype == dns.TypeNone || rrtype == dns.TypeOPT {
			continue
		}
		add("many of "+what, 0, func(c *costly) bool { return c.record(rrtype, smallest[rrtype]) })
		add("pointers in "+what, 0, func(c *costly) bool { return c.n == 0 && c.record(rrtype, c.rest(pointers[rrtype], "\xc0\x0c")) })
		add("zeros in "+what, 0, func(c *costly) bool { return c.n == 0 && c.record(rrtype, c.rest(pointers[rrtype], "\x00")) })
		add("ones in "+what, 0, func(c *costly) bool { return c.n == 0 && c.record(rrtype, c.rest(pointers[rrtype], "\x01")) })
	}
	add("HIP with pointers", 0, func(c *costly) bool { return c.n == 0 && c.record(dns.TypeHIP, c.rest("\x00\x00\x00\x00", "\xc0\x0c")) })
	add("bitmaps of NSEC", 0, func(c *costly) bool {
		data := "\x00"
		for window := range 256 {
			data += string([]byte{byte(window), 32}) + strings.Repeat("\xff", 32)
		}
		return c.record(dns.TypeNSEC, data)
	})
	add("parameters of SVCB", 0, func(c *costly) bool {
		data := "\x00\x01\x00"
		for key := 8; key < 16000; key++ {
			data += string([]byte{byte(key >> 8), byte(key), 0, 0})
		}
		return c.n == 0 && c.record(dns.TypeSVCB, data)
	})
	add("options", 2, func(c *costly) bool { return c.n == 0 && c.record(dns.TypeOPT, c.rest("", "\xfd\xe9\x00\x00")) })
	for section, what := range []string{"answer", "authority", "additional"} {
		add("names of their own in "+what, section, func(c *costly) bool { return c.named(fmt.Sprintf("%x", c.n), dns.TypeA, "\x01\x02\x03\x04") })
		add("pointer chains in "+what, section, func(c *costly) bool {
			return c.named("a", dns.TypeNS, string(binary.BigEndian.AppendUint16(nil, 0xc000|uint16(c.last&0x3fff))))
		})
		add("pointers to pointers in "+what, section, func(c *costly) bool {
			return c.octets(string(binary.BigEndian.AppendUint16(nil, 0xc000|uint16(c.last&0x3fff))), dns.TypeA, "\x01\x02\x03\x04")
		})
		add("escapes in "+what, section, func(c *costly) bool {
			return c.named(strings.Repeat("\x00", 40)+fmt.Sprintf("%x", c.n), dns.TypeMX, "\x00\x01\xc0\x0c")
		})
		add("aliases in "+what, section, func(c *costly) bool {
			next := fmt.Sprintf("%04x", c.n)
			if c.n == 0 {
				return c.record(dns.TypeCNAME, "\x04"+next+"\xc0\x0c")
			}
			return c.named(fmt.Sprintf("%04x", c.n-1), dns.TypeCNAME, "\x04"+next+"\xc0\x0c")
		})
		add("DNAMEs of long aliases in "+what, section, func(c *costly) bool {
			return c.named(long[:2*(c.n%100)+1], dns.TypeDNAME, "\x01a\x00")
		})
	}
	addShared(all, name, qtype)
	return all
}

// addShared adds responses in which thousands of records point to one name. A reader that walks the
// name for each record pays for it every time. One record has another owner, and one may be an
// alias; otherwise a reader would see at once that it has nothing to drop.
func addShared(all map[string][]byte, name string, qtype uint16) {
	labels, octets := strings.Repeat("a.", 125), strings.Repeat(strings.Repeat("\\001", 62)+".", 4)
	data := map[uint16]string{dns.TypeA: "\x01\x02\x03\x04", dns.TypeMB: "\x00", dns.TypeCNAME: "\x00", dns.TypeTXT: "\x01\x00", dns.TypeNULL: ""}
	for what, owner := range map[string]string{
		"a name": name, "a name in upper case": strings.ToUpper(name), "many labels": labels, "many labels in upper case": strings.ToUpper(labels),
		"control characters": octets, "control characters in upper case": octets[:len(octets)-5] + "A.",
	} {
		for rrtype, data := range data {
			for section, where := range []string{"answer", "authority", "additional"} {
				for _, with := range []string{"", " with an alias"} {
					c := newCostly(owner, qtype)
					if with != "" && c.record(dns.TypeCNAME, "\x01A\x00") {
						c.n++
					}
					for c.room() && c.record(rrtype, data) {
						c.n++
					}
					c.octets("\x01b\x00", rrtype, data)
					c.n++
					all[what+" of many "+dns.TypeToString[rrtype]+" in "+where+with] = c.finish(section)
				}
			}
		}
	}
	zone := strings.Repeat("\x01A", 125) + "\x00"
	c := newCostly(name, qtype)
	c.octets(zone, dns.TypeCNAME, "\x01b\x00")
	pointer := string(binary.BigEndian.AppendUint16(nil, 0xc000|uint16(c.last)))
	for c.n = 1; c.room() && c.octets(pointer, dns.TypeCNAME, "\x01b\x00"); c.n++ {
	}
	c.record(dns.TypeCNAME, pointer)
	c.n++
	c.octets(pointer, dns.TypeSOA, smallest[dns.TypeSOA])
	c.m[9] = 1 // in the authority section
	all["a zone of the last alias alone"] = c.finish(0)
}

// CompressedHIP is a Faults.Raw: a response with a 64 KiB HIP record that consists of pointers to
// the name in the question. A reader that expands each pointer needs megabytes.
func CompressedHIP(query []byte) [][]byte {
	end := 12
	for end < len(query) && query[end] != 0 {
		end += 1 + int(query[end])
	}
	c := &costly{m: append([]byte{}, query[:min(end+5, len(query))]...)}
	copy(c.m[2:], []byte{0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0})
	c.record(dns.TypeHIP, c.rest("\x00\x00\x00\x00", "\xc0\x0c"))
	c.n = 1
	return [][]byte{c.finish(0)}
}

// CostlyInTurn is a Faults.Raw: the Costly responses of the given kinds, in turn, to queries for
// names as long as name. Others, such as checks of a silent server, get an empty response.
func CostlyInTurn(name string, qtype uint16, kinds ...string) func(query []byte) [][]byte {
	all := Costly(name, qtype)
	for _, kind := range kinds {
		if all[kind] == nil {
			panic("unknown kind of costly response: " + kind)
		}
	}
	var n atomic.Int64
	return func(query []byte) [][]byte {
		if bytes.IndexByte(query[12:], 0) != len(name) { // where the root label is
			response := bytes.Clone(query)
			response[2] |= 0x80
			return [][]byte{response}
		}
		response := bytes.Clone(all[kinds[int(n.Add(1)-1)%len(kinds)]])
		copy(response, query[:2])
		copy(response[12:], query[12:12+len(name)+1])
		return [][]byte{response}
	}
}

// smallest are minimal RDATA by type; for other types they are empty.
var smallest = map[uint16]string{
	dns.TypeA: "\x01\x02\x03\x04", dns.TypeAAAA: strings.Repeat("\x01", 16), dns.TypeNS: "\xc0\x0c", dns.TypeCNAME: "\xc0\x0c", dns.TypePTR: "\xc0\x0c",
	dns.TypeMB: "\xc0\x0c", dns.TypeMD: "\xc0\x0c", dns.TypeMF: "\xc0\x0c", dns.TypeMG: "\xc0\x0c", dns.TypeMR: "\xc0\x0c",
	dns.TypeMX: "\x00\x01\xc0\x0c", dns.TypeAFSDB: "\x00\x01\xc0\x0c", dns.TypeRT: "\x00\x01\xc0\x0c", dns.TypePX: "\x00\x01\xc0\x0c\xc0\x0c",
	dns.TypeRP: "\xc0\x0c\xc0\x0c", dns.TypeMINFO: "\xc0\x0c\xc0\x0c", dns.TypeSRV: "\x00\x01\x00\x02\x00\x03\xc0\x0c",
	dns.TypeSOA: "\xc0\x0c\xc0\x0c" + strings.Repeat("\x00", 20), dns.TypeNAPTR: "\x00\x01\x00\x02\x00\x00\x00\xc0\x0c",
	dns.TypeTXT: "\x00", dns.TypeSPF: "\x00", dns.TypeDNAME: "\x00", dns.TypeSVCB: "\x00\x01\x00", dns.TypeHTTPS: "\x00\x01\x00",
	dns.TypeKX: "\x00\x01\x00", dns.TypeLP: "\x00\x01\x00", dns.TypeRRSIG: strings.Repeat("\x00", 19), dns.TypeSIG: strings.Repeat("\x00", 19),
	dns.TypeAPL: "\x00\x01\x00\x00", dns.TypeNSEC: "\x00\x00\x01\x40", dns.TypeDS: "\x00\x00\x00\x00", dns.TypeCAA: "\x00\x00",
}

// pointers are, by type, the bytes of RDATA before its name or list. Types without an entry begin
// with the name.
var pointers = map[uint16]string{
	dns.TypeMX: "\x00\x01", dns.TypeSVCB: "\x00\x01\x00", dns.TypeHTTPS: "\x00\x01\x00", dns.TypeHIP: "\x00\x00\x00\x00", dns.TypeNSEC: "\x00",
	dns.TypeRRSIG: strings.Repeat("\x00", 18), dns.TypeSRV: strings.Repeat("\x00", 6),
}

// costly is a message under construction.
type costly struct {
	m    []byte
	n    int // number of records
	last int // offset of the last record
}

func newCostly(name string, qtype uint16) *costly {
	m, err := new(dns.Msg).SetQuestion(name, qtype).Pack()
	if err != nil {
		panic(err)
	}
	m[0], m[1], m[2], m[3] = 0, 0, 0x81, 0x80
	return &costly{m: m, last: 12}
}

const most = 65535

func (c *costly) room() bool { return len(c.m) < most-300 }

// rest returns begin, followed by what as often as it fits.
func (c *costly) rest(begin, what string) string {
	return begin + strings.Repeat(what, (most-len(c.m)-12-len(begin))/len(what))
}

func (c *costly) record(rrtype uint16, data string) bool { return c.octets("\xc0\x0c", rrtype, data) }

// named appends a record whose owner is these labels below the name in the question.
func (c *costly) named(labels string, rrtype uint16, data string) bool {
	var owner []byte
	for label := range strings.SplitSeq(labels, ".") {
		if label != "" {
			owner = append(append(owner, byte(len(label))), label...)
		}
	}
	return c.octets(string(append(owner, 0xc0, 0x0c)), rrtype, data)
}

// octets appends a record. It returns false if there is no room.
func (c *costly) octets(owner string, rrtype uint16, data string) bool {
	if len(c.m)+len(owner)+10+len(data) > most {
		return false
	}
	c.last = len(c.m)
	c.m = append(c.m, owner...)
	c.m = binary.BigEndian.AppendUint16(c.m, rrtype)
	c.m = append(c.m, 0, 1, 0, 0, 0, 60)
	c.m = binary.BigEndian.AppendUint16(c.m, uint16(len(data)))
	c.m = append(c.m, data...)
	return true
}

func (c *costly) finish(section int) []byte {
	binary.BigEndian.PutUint16(c.m[6+2*section:], uint16(c.n))
	return c.m
}

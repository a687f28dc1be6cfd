package edns

import (
	"bytes"
	"strings"

	"github.com/miekg/dns"
)

// A row is a message and its expected response, from the upstream or from the cache.
type row struct {
	id    string
	ref   string
	wire  []byte
	want  string // result of judge; dropped; or closed, which can only happen over TCP
	asked asked  // by the upstream
	note  string // how an ambiguous expectation is interpreted

	udp string // expectation over UDP, if it differs
	tcp string // expectation over TCP, if it differs
}

const (
	dropped = "dropped"
	closed  = "closed"
	notSent = "not sent" // not possible over that transport
)

// asked is whether the upstream gets a query if the message is sent twice.
type asked int

const (
	never      asked = iota
	remembered       // only for the first message
	eachTime
	anyhow // the name is not unique
)

const (
	cookie8  = "0102030405060708"
	cookie40 = cookie8 + "0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f20"
)

// label63 and name255 have the maximum length of a label and a name. Longer ones are built by hand.
var (
	label63 = strings.Repeat("a", 63)
	name255 = placeholder + "." + strings.Repeat("b", 53) + "." + label63 + "." + label63 + "." + strings.Repeat("c", 52) + ".t.example."
	name256 = append(append([]byte{8, 'd', 'd', 'd', 'd', 'd', 'd', 'd', 'd'}, bytes.Repeat(append([]byte{60}, label63[:60]...), 4)...), 1, 'e', 0)
	junk    = bytes.Repeat([]byte{0xff}, 60000)
)

// headerRows test the header: RFC 1035 section 4.1.1.
var headerRows = []row{
	{id: "dns", ref: "RFC 8906 8.1.1", wire: query(www), want: "NOERROR an=1", asked: remembered, note: "AA is for who has the zone, from memory and not"},
	{id: "norec", ref: "RFC 1035 4.1.1", wire: message(0, 1, 0, 0, 0, www), want: "NOERROR an=1", asked: eachTime, note: "what is said without recursion is not remembered"},
	{id: "ad", ref: "RFC 8906 8.1.3.2", wire: message(rd|ad, 1, 0, 0, 0, www), want: "NOERROR an=1", asked: remembered, note: "AD is the upstream's, which has not said it"},
	{id: "ad-signed", ref: "RFC 6840 5.7", wire: message(rd|ad, 1, 0, 0, 0, question(signed, dns.TypeA)), want: "NOERROR ad an=1", asked: remembered},
	{id: "no-ad", ref: "RFC 6840 5.8", wire: query(question(signed, dns.TypeA)), want: "NOERROR an=1", asked: remembered, note: "nobody asked for AD"},
	{id: "cd", ref: "RFC 8906 8.1.3.2", wire: message(rd|cd, 1, 0, 0, 0, www), want: "NOERROR cd an=1", asked: remembered},
	{id: "ra", ref: "genreport ra", wire: message(rd|ra, 1, 0, 0, 0, www), want: "NOERROR an=1", asked: remembered},
	{id: "tc", ref: "genreport tc", wire: message(rd|tc, 1, 0, 0, 0, www), want: "NOERROR an=1", asked: remembered, note: "answered, and TC not copied"},
	{id: "aa", ref: "RFC 1035 4.1.1", wire: message(rd|aa, 1, 0, 0, 0, www), want: "NOERROR an=1", asked: remembered},
	{id: "z", ref: "RFC 8906 8.1.3.1", wire: message(rd|z, 1, 0, 0, 0, www), want: "NOERROR an=1", asked: remembered},
	{id: "rcode", ref: "RFC 1035 4.1.1", wire: message(rd|3, 1, 0, 0, 0, www), want: "NOERROR an=1", asked: remembered, note: "an rcode is for responses"},
	{id: "every-bit", ref: "RFC 1035 4.1.1", wire: message(rd|aa|tc|ra|z|ad|cd|15, 1, 0, 0, 0, www), want: "NOERROR cd an=1", asked: remembered},
	{id: "qr", ref: "RFC 1035 7.3", wire: message(qr|rd, 1, 0, 0, 0, www), want: dropped},
	{id: "qr-notify", ref: "RFC 1996 3.8", wire: message(qr|4*opcode, 1, 0, 0, 0, www), want: dropped},
	{id: "qr-header", ref: "RFC 1035 7.3", wire: message(qr, 0, 0, 0, 0), want: dropped},
	{id: "iquery", ref: "RFC 8906 8.1.4; RFC 3425", wire: message(1*opcode, 0, 0, 0, 0), want: "NOTIMP qd=0"},
	{id: "iquery-rr", ref: "RFC 3425", wire: message(1*opcode, 0, 1, 0, 0, stray), want: "NOTIMP qd=0"},
	{id: "status", ref: "RFC 1034 3.8", wire: message(2*opcode, 0, 0, 0, 0), want: "NOTIMP qd=0"},
	{id: "op3", ref: "RFC 8906 8.1.4", wire: message(3*opcode, 0, 0, 0, 0), want: "NOTIMP qd=0"},
	{id: "notify", ref: "RFC 1996", wire: message(4*opcode|aa, 1, 0, 0, 0, question("t.example.", dns.TypeSOA)), want: "NOTIMP", note: "there is no zone here to be told of"},
	{id: "notify-soa", ref: "RFC 1996 3.7", wire: message(4*opcode, 1, 1, 0, 0, question("t.example.", dns.TypeSOA), stray), want: "NOTIMP"},
	{id: "update", ref: "RFC 2136 3", wire: message(5*opcode, 1, 0, 1, 0, question("t.example.", dns.TypeSOA), stray), want: "NOTIMP"},
	{id: "dso", ref: "RFC 8490 5.1", wire: message(6*opcode, 0, 0, 0, 0, unhex("0001 0008 0000ea60 0000ea60")), want: "NOTIMP qd=0"},
	{id: "opcode", ref: "RFC 8906 8.1.4", wire: message(15*opcode, 0, 0, 0, 0), want: "NOTIMP qd=0"},
	{id: "opcode-edns", ref: "RFC 6891 6.1.1", wire: message(15*opcode, 1, 0, 0, 1, www, opt(1232, 0)), want: "NOTIMP opt"},
	{id: "notify-edns1", ref: "RFC 6891 6.1.3", wire: message(4*opcode, 1, 0, 0, 1, www, opt(1232, 1<<16)), want: "NOTIMP opt", note: "the opcode says what the rest means"},
}

// countRows test the counts in the header and the sections that they count.
var countRows = []row{
	{id: "header-only", ref: "RFC 9619", wire: message(rd, 0, 0, 0, 0), want: "FORMERR qd=0"},
	{id: "qd0-question", ref: "RFC 9619", wire: message(rd, 0, 0, 0, 0, www), want: "FORMERR qd=0"},
	{id: "qd0-edns", ref: "RFC 9619; RFC 7873 5.4", wire: message(rd, 0, 0, 0, 1, opt(1232, 0)), want: "FORMERR qd=0 opt", note: "without COOKIE nothing is asked for"},
	{id: "qd2", ref: "RFC 9619", wire: message(rd, 2, 0, 0, 0, www, www), want: "FORMERR qd=0"},
	{id: "qd2-edns", ref: "RFC 9619; RFC 6891 6.1.1", wire: message(rd, 2, 0, 0, 1, www, www, opt(1232, 0)), want: "FORMERR qd=0 opt"},
	{id: "qd2-one", ref: "RFC 9619", wire: message(rd, 2, 0, 0, 0, www), want: "FORMERR qd=0"},
	{id: "qd65535", ref: "RFC 9619", wire: message(rd, 65535, 0, 0, 0, www), want: "FORMERR qd=0"},
	{id: "an1", ref: "RFC 1035", wire: message(rd, 1, 1, 0, 0, www, stray), want: "FORMERR"},
	{id: "an1-none", ref: "RFC 1035", wire: message(rd, 1, 1, 0, 0, www), want: "FORMERR"},
	{id: "ns1", ref: "RFC 1035", wire: message(rd, 1, 0, 1, 0, www, stray), want: "FORMERR", note: "an authority record is for IXFR and UPDATE, which are refused"},
	{id: "ns1-none", ref: "RFC 1035", wire: message(rd, 1, 0, 1, 0, www), want: "FORMERR"},
	{id: "ar1-none", ref: "RFC 1035", wire: message(rd, 1, 0, 0, 1, www), want: "FORMERR"},
	{id: "ar2-one", ref: "RFC 1035", wire: message(rd, 1, 0, 0, 2, www, opt(1232, 0)), want: "FORMERR opt"},
	{id: "ar65535", ref: "RFC 1035", wire: message(rd, 1, 0, 0, 65535, www, opt(1232, 0)), want: "FORMERR opt"},
	{id: "ar1-address", ref: "RFC 1035", wire: message(rd, 1, 0, 0, 1, www, stray), want: "NOERROR an=1", asked: remembered, note: "answered, and what was added not believed"},
	{id: "opt-uncounted", ref: "RFC 6891 6.1.1", wire: message(rd, 1, 0, 0, 0, www, opt(1232, do)), want: "NOERROR an=1", asked: remembered, note: "what no count covers is junk"},
	{id: "opt-answer", ref: "RFC 6891 6.1.1", wire: message(rd, 1, 1, 0, 0, www, opt(1232, 0)), want: "FORMERR", note: "an OPT record elsewhere is none"},
	{id: "opt-authority", ref: "RFC 6891 6.1.1", wire: message(rd, 1, 0, 1, 0, www, opt(1232, 0)), want: "FORMERR"},
	{id: "trail", ref: "RFC 1035", wire: message(rd, 1, 0, 0, 0, www, junk[:20]), want: "NOERROR an=1", asked: remembered},
	{id: "trail-edns", ref: "RFC 1035", wire: message(rd, 1, 0, 0, 1, www, opt(1232, 0), junk[:20]), want: "NOERROR an=1 opt", asked: remembered},
	{id: "jumbo", ref: "robustness", wire: message(rd, 1, 0, 0, 0, www, junk), want: "NOERROR an=1", asked: remembered},
	{id: "short11", ref: "robustness", wire: query(www)[:11], want: dropped, tcp: closed},
	{id: "short1", ref: "robustness", wire: []byte{0x12}, want: dropped, tcp: closed},
	{id: "empty", ref: "robustness", wire: []byte{}, want: dropped, tcp: closed},
	{id: "zeros", ref: "robustness", wire: make([]byte, 12), want: "FORMERR qd=0"},
	{id: "ones", ref: "robustness", wire: bytes.Repeat([]byte{0xff}, 12), want: dropped, note: "QR is set"},
}

// questionRows test the question: its name, type and class.
var questionRows = []row{
	{id: "case-echo", ref: "draft-vixie-dnsext-dns0x20; RFC 4343", wire: query(question(placeholder+".T.eXaMpLe.", dns.TypeA)), want: "NOERROR an=1", asked: remembered},
	{id: "binlabel", ref: "RFC 2181 11", wire: query(question(`\000\.\255\032A.`+one, dns.TypeA)), want: "NOERROR an=1", asked: remembered},
	{id: "nul", ref: "RFC 2181 11", wire: query(question(`\000.`+one, dns.TypeA)), want: "NOERROR an=1", asked: remembered},
	{id: "asterisk", ref: "RFC 4592", wire: query(question("*."+one, dns.TypeA)), want: "NOERROR an=1", asked: remembered},
	{id: "root", ref: "RFC 1035 3.1", wire: query(question(".", dns.TypeNS)), want: "NOERROR an=1", asked: anyhow},
	{id: "label63", ref: "RFC 1035 2.3.4", wire: query(question(label63+"."+one, dns.TypeA)), want: "NOERROR an=1", asked: remembered},
	{id: "label64", ref: "RFC 1035 4.1.4", wire: query(raw([]byte{64}, bytes.Repeat([]byte{'a'}, 64), www)), want: "FORMERR qd=0", note: "the two bits mean something else: RFC 2671's label types, which RFC 6891 has ended"},
	{id: "label128", ref: "RFC 1035 4.1.4", wire: query(raw([]byte{128}, bytes.Repeat([]byte{'a'}, 128), www)), want: "FORMERR qd=0"},
	{id: "name255", ref: "RFC 1035 2.3.4", wire: query(question(name255, dns.TypeA)), want: "NOERROR an=1", asked: remembered},
	{id: "name255-edns", ref: "RFC 1035 2.3.4", wire: query(question(name255, dns.TypeA), opt(512, do)), want: "NOERROR an=1 opt do", asked: remembered},
	{id: "name256-just", ref: "RFC 1035 2.3.4", wire: query(raw(name256, unhex("0001 0001"))), want: "FORMERR qd=0"},
	{id: "name256", ref: "RFC 1035 2.3.4", wire: query(raw(bytes.Repeat(raw([]byte{63}, []byte(label63)), 4), unhex("03 616161 00 0001 0001"))), want: "FORMERR qd=0", note: "FORMERR, so that the client learns of it"},
	{id: "labels127", ref: "RFC 1035 2.3.4", wire: query(raw(bytes.Repeat([]byte{1, 'a'}, 127), unhex("00 0001 0001"))), want: "NXDOMAIN ns=1", asked: anyhow},
	{id: "ptr-fwd", ref: "RFC 9267 2", wire: query(unhex("c0ff 0001 0001")), want: "FORMERR qd=0"},
	{id: "ptr-self", ref: "RFC 9267 2", wire: query(unhex("c00c 0001 0001")), want: "FORMERR qd=0"},
	{id: "ptr-header", ref: "RFC 1035 4.1.4", wire: query(unhex("c004 0001 0001")), want: "FORMERR qd=0", note: "there is no name before the first"},
	{id: "ptr-label", ref: "RFC 1035 4.1.4", wire: query(raw([]byte("\x07"+placeholder), unhex("c00c 0001 0001"))), want: "FORMERR qd=0"},
	{id: "ptr-opt", ref: "RFC 1035 4.1.4", wire: query(www, raw(unhex("c0ff"), opt(1232, 0)[1:])), want: "FORMERR opt", note: "the root's, if anybody's"},
	{id: "cut-q", ref: "RFC 1035", wire: query(www[:len(www)-1]), want: "FORMERR qd=0"},
	{id: "cut-type", ref: "RFC 1035", wire: query(www[:len(www)-4]), want: "FORMERR qd=0"},
	{id: "cut-name", ref: "RFC 1035", wire: query(www[:6]), want: "FORMERR qd=0"},
	{id: "cut-all", ref: "RFC 1035", wire: query(nil), want: "FORMERR qd=0"},

	{id: "nodata", ref: "RFC 2308 2.2", wire: query(question(nothing, dns.TypeA)), want: "NOERROR ns=1", asked: remembered},
	{id: "nxdomain", ref: "RFC 2308 2.1", wire: query(question(nowhere, dns.TypeA)), want: "NXDOMAIN ns=1", asked: remembered},
	{id: "type0", ref: "RFC 6895 3.1", wire: query(question(one, 0)), want: "NOERROR ns=1", asked: remembered, note: "reserved, and a data type by its number: the upstream says what there is"},
	{id: "type666", ref: "RFC 8906 8.1.2; RFC 3597", wire: query(question(one, 666)), want: "NOERROR an=1", asked: remembered},
	{id: "type65279", ref: "RFC 3597", wire: query(question(one, 65279)), want: "NOERROR an=1", asked: remembered, note: "a record of no octets"},
	{id: "type65535", ref: "RFC 3597", wire: query(question(one, 65535)), want: "NOERROR ns=1", asked: remembered},
	{id: "type41", ref: "RFC 6891", wire: query(question(one, dns.TypeOPT)), want: "FORMERR", note: "no record has this type"},
	{id: "type41-edns", ref: "RFC 9824 9", wire: query(question(one, dns.TypeOPT), opt(1232, 0)), want: "FORMERR opt ede=30"},
	{id: "nxname", ref: "RFC 9824 3.5", wire: query(question(one, dns.TypeNXNAME)), want: "FORMERR"},
	{id: "nxname-edns", ref: "RFC 9824 3.5", wire: query(question(one, dns.TypeNXNAME), opt(1232, 0)), want: "FORMERR opt ede=30"},
	{id: "any", ref: "RFC 8482 4.2", wire: query(question(one, dns.TypeANY)), want: "NOERROR an=1", note: "a HINFO record, and nobody is asked"},
	{id: "any-do", ref: "RFC 8482 4.2", wire: query(question(signed, dns.TypeANY), opt(1232, do)), want: "NOERROR an=1 opt do"},
	{id: "rrsig", ref: "RFC 4035 3.2.1", wire: query(question(signed, dns.TypeRRSIG)), want: "NOERROR an=1", asked: remembered, note: "asked for by its type, without DO"},
	{id: "axfr-udp", ref: "RFC 5936 4.2", wire: query(question("t.example.", dns.TypeAXFR)), want: "REFUSED", tcp: notSent},
	{id: "axfr-tcp", ref: "RFC 5936 2.2", wire: query(question("t.example.", dns.TypeAXFR)), want: "REFUSED", udp: notSent},
	{id: "ixfr", ref: "RFC 1995 2", wire: query(question("t.example.", dns.TypeIXFR)), want: "REFUSED"},
	{id: "ixfr-edns", ref: "RFC 1995 2", wire: query(question("t.example.", dns.TypeIXFR), opt(1232, do)), want: "REFUSED opt do ede=21"},
	{id: "tkey", ref: "RFC 2930", wire: query(question(one, dns.TypeTKEY)), want: "NOTIMP"},
	{id: "tsig-type", ref: "RFC 8945 4.2", wire: query(question(one, dns.TypeTSIG)), want: "NOTIMP"},
	{id: "mailb", ref: "RFC 1035 3.2.3", wire: query(question(one, dns.TypeMAILB)), want: "NOTIMP"},
	{id: "maila", ref: "RFC 1035 3.2.3", wire: query(question(one, dns.TypeMAILA)), want: "NOTIMP"},
	{id: "class-ch", ref: "RFC 4892", wire: query(questionOf("version.bind.", dns.TypeTXT, dns.ClassCHAOS)), want: "NOERROR aa an=1", note: "to this host"},
	{id: "class-ch-name", ref: "RFC 4892", wire: query(questionOf(one, dns.TypeA, dns.ClassCHAOS)), want: "REFUSED"},
	{id: "class-hs", ref: "RFC 6895 3.2", wire: query(questionOf(one, dns.TypeA, dns.ClassHESIOD)), want: "NOTIMP"},
	{id: "class-9", ref: "RFC 6895", wire: query(questionOf(one, dns.TypeA, 9)), want: "NOTIMP"},
	{id: "class-0", ref: "RFC 6895 3.2", wire: query(questionOf(one, dns.TypeA, 0)), want: "NOTIMP"},
	{id: "class-none", ref: "RFC 2136 1.3", wire: query(questionOf(one, dns.TypeA, dns.ClassNONE)), want: "NOTIMP"},
	{id: "class-any", ref: "RFC 1035 3.2.5", wire: query(questionOf(one, dns.TypeA, dns.ClassANY)), want: "NOTIMP"},
	{id: "class-9-edns", ref: "RFC 6891 6.1.1", wire: query(questionOf(one, dns.TypeA, 9), opt(1232, 0)), want: "NOTIMP opt ede=21"},
}

// ednsRows test the OPT record and its options.
var ednsRows = []row{
	{id: "edns0", ref: "RFC 8906 8.2.1", wire: query(www, opt(1232, 0)), want: "NOERROR an=1 opt", asked: remembered},
	{id: "edns1", ref: "RFC 8906 8.2.2", wire: query(www, opt(1232, 1<<16)), want: "BADVERS opt"},
	{id: "edns255", ref: "RFC 6891 6.1.3", wire: query(www, opt(1232, 255<<16)), want: "BADVERS opt"},
	{id: "edns1-do", ref: "RFC 3225 3", wire: query(www, opt(1232, 1<<16|do)), want: "BADVERS opt do"},
	{id: "ednsopt", ref: "RFC 8906 8.2.3", wire: query(www, opt(1232, 0, option(100, ""))), want: "NOERROR an=1 opt", asked: remembered},
	{id: "ednsopt-data", ref: "RFC 6891 6.1.2", wire: query(www, opt(1232, 0, option(100, "0102030405"))), want: "NOERROR an=1 opt", asked: remembered},
	{id: "ednsopt-65001", ref: "RFC 6891 9", wire: query(www, opt(1232, 0, option(65001, cookie40))), want: "NOERROR an=1 opt", asked: remembered},
	{id: "ednsopt-0", ref: "RFC 6891 9", wire: query(www, opt(1232, 0, option(0, ""))), want: "NOERROR an=1 opt", asked: remembered},
	{id: "ednsflags", ref: "RFC 8906 8.2.4", wire: query(www, opt(1232, 0x40|0x80)), want: "NOERROR an=1 opt", asked: remembered},
	{id: "ednsflags-all", ref: "RFC 6891 6.1.4", wire: query(question(signed, dns.TypeA), opt(1232, 0xffff)), want: "NOERROR ad an=2 opt do", asked: remembered},
	{id: "edns-rcode", ref: "RFC 6891 6.1.3", wire: query(www, opt(1232, 1<<24)), want: "NOERROR an=1 opt", asked: remembered, note: "an extended rcode is for responses"},
	{id: "edns1flags", ref: "RFC 8906 8.2.5", wire: query(www, opt(1232, 1<<16|0x80)), want: "BADVERS opt"},
	{id: "edns1opt", ref: "RFC 8906 8.2.6", wire: query(www, opt(1232, 1<<16, option(100, ""))), want: "BADVERS opt"},
	{id: "do", ref: "RFC 8906 8.2.7", wire: query(question(signed, dns.TypeA), opt(1232, do)), want: "NOERROR ad an=2 opt do", asked: remembered},
	{id: "docd", ref: "genreport docd", wire: message(rd|cd, 1, 0, 0, 1, question(signed, dns.TypeA), opt(1232, do)), want: "NOERROR ad cd an=2 opt do", asked: remembered},
	{id: "optlist", ref: "RFC 8906 8.2.10", wire: query(www, opt(1232, 0, option(dns.EDNS0NSID, ""), option(dns.EDNS0SUBNET, "0001 18 00 c00002"),
		option(dns.EDNS0EXPIRE, ""), option(dns.EDNS0COOKIE, cookie8))), want: "NOERROR an=1 opt cookie", asked: remembered},
	{id: "nsid", ref: "RFC 5001 2.1", wire: query(www, opt(1232, 0, option(dns.EDNS0NSID, ""))), want: "NOERROR an=1 opt", asked: remembered, note: "no name of this node for whoever asks"},
	{id: "ecs", ref: "RFC 7871 7.2.2", wire: query(www, opt(1232, 0, option(dns.EDNS0SUBNET, "0001 18 00 c00002"))), want: "NOERROR an=1 opt", asked: remembered, note: "not supported, so not returned; nor sent on"},
	{id: "ecs-zero", ref: "RFC 7871 7.1.2", wire: query(www, opt(1232, 0, option(dns.EDNS0SUBNET, "0001 00 00"))), want: "NOERROR an=1 opt", asked: remembered},
	{id: "ecs-bad", ref: "RFC 7871 7.1", wire: query(www, opt(1232, 0, option(dns.EDNS0SUBNET, "0001 21 00 c0000200 00"))), want: "FORMERR opt", note: "not dropped, and not ignored"},
	{id: "ecs-short", ref: "RFC 7871 6", wire: query(www, opt(1232, 0, option(dns.EDNS0SUBNET, "0001"))), want: "FORMERR opt"},
	{id: "ecs-family", ref: "RFC 7871 6", wire: query(www, opt(1232, 0, option(dns.EDNS0SUBNET, "0009 18 00 c00002"))), want: "FORMERR opt"},
	{id: "cookie", ref: "RFC 7873 5.2.3", wire: query(www, opt(1232, 0, option(dns.EDNS0COOKIE, cookie8))), want: "NOERROR an=1 opt cookie", asked: remembered},
	{id: "cookie-server", ref: "RFC 7873 5.2.4", wire: query(www, opt(1232, 0, option(dns.EDNS0COOKIE, cookie8+"0100000000000000 0102030405060708"))), want: "NOERROR an=1 opt cookie", asked: remembered, note: "one that is not ours: answered, and told the right one"},
	{id: "cookie-longest", ref: "RFC 7873 5.2.4", wire: query(www, opt(1232, 0, option(dns.EDNS0COOKIE, cookie40))), want: "NOERROR an=1 opt cookie", asked: remembered},
	{id: "cookie-twice", ref: "RFC 7873 5.2", wire: query(www, opt(1232, 0, option(dns.EDNS0COOKIE, cookie8), option(dns.EDNS0COOKIE, "1112131415161718"))), want: "NOERROR an=1 opt cookie", asked: remembered, note: "the first counts"},
	{id: "cookie-do", ref: "RFC 7873 5.2.3", wire: query(question(signed, dns.TypeA), opt(1232, do, option(dns.EDNS0COOKIE, cookie8))), want: "NOERROR ad an=2 opt do cookie", asked: remembered},
	{id: "cookie-nxdomain", ref: "RFC 7873 5.2.3", wire: query(question(nowhere, dns.TypeA), opt(1232, 0, option(dns.EDNS0COOKIE, cookie8))), want: "NXDOMAIN ns=1 opt cookie", asked: remembered},
	{id: "cookie-refused", ref: "RFC 7873 5.2.3", wire: query(question(one, dns.TypeAXFR), opt(1232, 0, option(dns.EDNS0COOKIE, cookie8))), want: "REFUSED opt ede=21 cookie"},
	{id: "cookie-badvers", ref: "RFC 6891 6.1.3", wire: query(www, opt(1232, 1<<16, option(dns.EDNS0COOKIE, cookie8))), want: "BADVERS opt", note: "what an option of another version means nobody knows"},
	{id: "cookie-0", ref: "RFC 7873 5.2.2", wire: query(www, opt(1232, 0, option(dns.EDNS0COOKIE, ""))), want: "FORMERR opt"},
	{id: "cookie-7", ref: "RFC 7873 5.2.2", wire: query(www, opt(1232, 0, option(dns.EDNS0COOKIE, cookie8[2:]))), want: "FORMERR opt"},
	{id: "cookie-9", ref: "RFC 7873 5.2.2", wire: query(www, opt(1232, 0, option(dns.EDNS0COOKIE, cookie8+"01"))), want: "FORMERR opt"},
	{id: "cookie-15", ref: "RFC 7873 5.2.2", wire: query(www, opt(1232, 0, option(dns.EDNS0COOKIE, cookie8+cookie8[2:]))), want: "FORMERR opt"},
	{id: "cookie-41", ref: "RFC 7873 5.2.2", wire: query(www, opt(1232, 0, option(dns.EDNS0COOKIE, cookie40+"21"))), want: "FORMERR opt"},
	{id: "cookie-alone", ref: "RFC 7873 5.4", wire: message(rd, 0, 0, 0, 1, opt(1232, 0, option(dns.EDNS0COOKIE, cookie8))), want: "NOERROR qd=0 opt cookie"},
	{id: "cookie-alone-bad", ref: "RFC 7873 5.4", wire: message(rd, 0, 0, 0, 1, opt(1232, 0, option(dns.EDNS0COOKIE, cookie40))), want: "BADCOOKIE qd=0 opt cookie"},
	{id: "cookie-alone-7", ref: "RFC 7873 5.2.2", wire: message(rd, 0, 0, 0, 1, opt(1232, 0, option(dns.EDNS0COOKIE, cookie8[2:]))), want: "FORMERR qd=0 opt"},
	{id: "cookie-alone-edns1", ref: "RFC 6891 6.1.3", wire: message(rd, 0, 0, 0, 1, opt(1232, 1<<16, option(dns.EDNS0COOKIE, cookie8))), want: "BADVERS qd=0 opt"},
	{id: "padding", ref: "RFC 7830 4", wire: query(www, opt(1232, 0, option(dns.EDNS0PADDING, strings.Repeat("00", 64)))), want: "NOERROR an=1 opt", asked: remembered, note: "padding hides lengths where they are encrypted, and nothing is here (RFC 7830 section 6)"},
	{id: "padding-0", ref: "RFC 7830 3", wire: query(www, opt(1232, 0, option(dns.EDNS0PADDING, ""))), want: "NOERROR an=1 opt", asked: remembered},
	{id: "padding-odd", ref: "RFC 7830 3", wire: query(www, opt(1232, 0, option(dns.EDNS0PADDING, "010203"))), want: "NOERROR an=1 opt", asked: remembered, note: "other octets than 0 are accepted"},
	{id: "keepalive", ref: "RFC 7828 3.2.1", wire: query(www, opt(1232, 0, option(dns.EDNS0TCPKEEPALIVE, ""))), want: "NOERROR an=1 opt", asked: remembered, note: "must be ignored over UDP, may be over TCP"},
	{id: "keepalive-time", ref: "RFC 7828 3.2.1", wire: query(www, opt(1232, 0, option(dns.EDNS0TCPKEEPALIVE, "0064"))), want: "NOERROR an=1 opt", asked: remembered},
	{id: "keepalive-1", ref: "RFC 7828 3.1", wire: query(www, opt(1232, 0, option(dns.EDNS0TCPKEEPALIVE, "00"))), want: "NOERROR an=1 opt", asked: remembered, note: "must be ignored over UDP, whatever is in it"},
	{id: "chain", ref: "RFC 7901 4", wire: query(www, opt(1232, do, option(13, "00"))), want: "NOERROR an=1 opt do", asked: remembered},
	{id: "keytag", ref: "RFC 8145 4", wire: query(www, opt(1232, do, option(14, "4a5c4f66"))), want: "NOERROR an=1 opt do", asked: remembered},
	{id: "keytag-odd", ref: "RFC 8145 4.1", wire: query(www, opt(1232, do, option(14, "4a5c4f"))), want: "NOERROR an=1 opt do", asked: remembered},
	{id: "dau", ref: "RFC 6975 3", wire: query(www, opt(1232, do, option(dns.EDNS0DAU, "080d"), option(dns.EDNS0DHU, "0204"), option(dns.EDNS0N3U, "01"))), want: "NOERROR an=1 opt do", asked: remembered},
	{id: "ede-query", ref: "RFC 8914 2", wire: query(www, opt(1232, 0, option(dns.EDNS0EDE, "0003"))), want: "NOERROR an=1 opt", asked: remembered, note: "it says something in responses alone"},
	{id: "expire", ref: "RFC 7314 3", wire: query(www, opt(1232, 0, option(dns.EDNS0EXPIRE, ""))), want: "NOERROR an=1 opt", asked: remembered},
	{id: "llq", ref: "RFC 8764 3.2", wire: query(www, opt(1232, 0, option(dns.EDNS0LLQ, "0001 0001 0000 0000000000000000 00000e10"))), want: "NOERROR an=1 opt", asked: remembered},
	{id: "zoneversion", ref: "RFC 9660 3", wire: query(www, opt(1232, 0, option(19, ""))), want: "NOERROR an=1 opt", asked: remembered, note: "for who has the zone"},
	{id: "report-channel", ref: "RFC 9567 6.1", wire: query(www, opt(1232, 0, option(18, ""))), want: "NOERROR an=1 opt", asked: remembered},
	{id: "options60", ref: "RFC 6891 6.1.2", wire: query(www, opt(1232, 0, bytes.Repeat(option(100, "00"), 60))), want: "NOERROR an=1 opt", asked: remembered},
	{id: "opt-twice", ref: "RFC 6891 6.1.1", wire: query(www, opt(1232, 0), opt(1232, 0)), want: "FORMERR opt"},
	{id: "opt-two-versions", ref: "RFC 6891 6.1.1", wire: query(www, opt(1232, 0), opt(1232, 1<<16)), want: "FORMERR opt"},
	{id: "opt-name", ref: "RFC 6891 6.1.2", wire: query(www, raw(unhex("01 61"), opt(1232, 0))), want: "FORMERR opt", note: "must be the root's"},
	{id: "opt-pointer", ref: "RFC 6891 6.1.2", wire: query(www, raw(unhex("c0"), []byte{byte(11 + len(www) - 4)}, opt(1232, 0)[1:])), want: "NOERROR an=1 opt", asked: remembered, note: "a pointer to the root is the root"},
	{id: "opt-before", ref: "RFC 6891 6.1.1", wire: query(www, opt(1232, 0), stray), want: "NOERROR an=1 opt", asked: remembered, note: "may stand anywhere in the additional section"},
	{id: "opt-behind", ref: "RFC 6891 6.1.1", wire: query(www, stray, opt(1232, 0)), want: "NOERROR an=1 opt", asked: remembered},
	{id: "opt-cut", ref: "RFC 6891 6.1.2", wire: query(www, opt(1232, 0)[:6]), want: "FORMERR", note: "it is not there"},
	{id: "opt-longer", ref: "RFC 6891 6.1.2", wire: query(www, raw(opt(1232, 0)[:9], unhex("0008"))), want: "FORMERR"},
	{id: "option-cut", ref: "RFC 6891 6.1.2", wire: query(www, opt(1232, 0, unhex("000a00"))), want: "FORMERR opt"},
	{id: "option-longer", ref: "RFC 6891 6.1.2", wire: query(www, opt(1232, 0, unhex("0064 0004 01"))), want: "FORMERR opt"},
	{id: "tsig", ref: "RFC 8945 5.2", wire: query(www, tsig), want: "NOERROR an=1", asked: remembered, note: "no key is shared with anybody: answered unsigned, which who signed will see"},
	{id: "sig0", ref: "RFC 2931 3", wire: query(www, sig0), want: "NOERROR an=1", asked: remembered},
}

// sizeRows test the size of responses. Each address takes 16 bytes. The question takes 31 for the
// name hundred.
var sizeRows = []row{
	{id: "fits512", ref: "RFC 1035 4.2.1", wire: query(question(twenty, dns.TypeA)), want: "NOERROR an=20", asked: remembered},
	{id: "trunc512", ref: "RFC 1035 4.2.1", wire: query(question(hundred, dns.TypeA)), want: "NOERROR tc an=29", tcp: "NOERROR an=100", asked: remembered},
	{id: "edns0size", ref: "RFC 6891 6.2.3", wire: query(question(twenty, dns.TypeA), opt(0, 0)), want: "NOERROR an=20 opt", asked: remembered},
	{id: "size0-trunc", ref: "RFC 6891 6.2.3", wire: query(question(hundred, dns.TypeA), opt(0, 0)), want: "NOERROR tc an=28 opt", tcp: "NOERROR an=100 opt", asked: remembered},
	{id: "size511", ref: "RFC 6891 6.2.3", wire: query(question(hundred, dns.TypeA), opt(511, 0)), want: "NOERROR tc an=28 opt", tcp: "NOERROR an=100 opt", asked: remembered},
	{id: "size512", ref: "RFC 8906 8.2.8", wire: query(question(hundred, dns.TypeA), opt(512, 0)), want: "NOERROR tc an=28 opt", tcp: "NOERROR an=100 opt", asked: remembered},
	{id: "size513", ref: "RFC 6891 6.2.3", wire: query(question(hundred, dns.TypeA), opt(513, do)), want: "NOERROR tc an=28 opt do", tcp: "NOERROR an=100 opt do", asked: remembered},
	{id: "size600", ref: "RFC 6891 6.2.3", wire: query(question(hundred, dns.TypeA), opt(600, 0)), want: "NOERROR tc an=34 opt", tcp: "NOERROR an=100 opt", asked: remembered},
	{id: "edns1232", ref: "RFC 6891", wire: query(question(sixty, dns.TypeA), opt(1232, 0)), want: "NOERROR an=60 opt", asked: remembered},
	{id: "size1232", ref: "RFC 9715 3.1", wire: query(question(hundred, dns.TypeA), opt(1232, 0)), want: "NOERROR tc an=73 opt", tcp: "NOERROR an=100 opt", asked: remembered},
	{id: "size4096", ref: "RFC 9715 3.1", wire: query(question(hundred, dns.TypeA), opt(4096, 0)), want: "NOERROR tc an=73 opt", tcp: "NOERROR an=100 opt", asked: remembered, note: "no more than 1232 octets leave in one datagram, so that none is a fragment"},
	{id: "size65535", ref: "RFC 6891 6.2.5", wire: query(question(hundred, dns.TypeA), opt(65535, 0)), want: "NOERROR tc an=73 opt", tcp: "NOERROR an=100 opt", asked: remembered},
	{id: "size512-cookie", ref: "RFC 7873 5.2.3", wire: query(question(hundred, dns.TypeA), opt(512, 0, option(dns.EDNS0COOKIE, cookie8))), want: "NOERROR tc an=26 opt cookie", tcp: "NOERROR an=100 opt cookie", asked: remembered},
	{id: "size1232-cookie", ref: "RFC 7873 5.2.3", wire: query(question(hundred, dns.TypeA), opt(1232, do, option(dns.EDNS0COOKIE, cookie8))), want: "NOERROR tc an=71 opt do cookie", tcp: "NOERROR an=100 opt do cookie", asked: remembered},
	{id: "trunc-900", ref: "RFC 1035 4.2.1", wire: query(question(nineHundred, dns.TypeA), opt(1232, 0)), want: "NOERROR tc an=73 opt", tcp: "NOERROR an=900 opt", asked: remembered},
}

func raw(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

// tsig and sig0 are records that sign a message: RFC 8945 section 4.2 and RFC 2931 section 3. The
// daemon has no key for them.
var (
	tsig = raw(octetsOf("key.example."), unhex("00fa 00ff 00000000 003d"), octetsOf("hmac-sha256."), unhex("000065e1a2b3 012c 0020"),
		bytes.Repeat([]byte{7}, 32), unhex("0000 0000 0000"))
	sig0 = raw(unhex("00 0018 00ff 00000000 001f 0000 0d 00 00000000 65e1a2b3 65e1a2b3 0001"), octetsOf("key.example."))
)

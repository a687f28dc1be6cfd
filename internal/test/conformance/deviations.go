package conformance

// Why we deviate from a peer. docs/appendix/deviations.md shows these strings.
const (
	nonTerminal = "the name exists because names below it exist (RFC 8020): NODATA. After NXDOMAIN a cache may drop every name below it"
	hasTXT      = "the name has a TXT record, so it exists: NODATA"
	anyIsHINFO  = "RFC 8482 section 4.2 defines an answer to ANY that resolvers can cache; after REFUSED they query another server"
	noPortZero  = "the Service has no such port. Clients take a SRV record with port 0 for a port, on which nothing listens"
	bothFamily  = "a dual-stack Service has addresses of both families"
	emptyNot    = "a Service without an Endpoints object exists, like an empty one: NODATA. SkyDNS treats it as missing"
	ownTTL      = "the target's records keep the TTLs of their own nameserver"
	onlyCNAME   = "a name with a CNAME record has no other records (RFC 1034 section 3.6.2): the answer is the CNAME and the records of its target"
	noForeign   = "the target is not in our zones; a client that needs its addresses gets them from their own nameserver (RFC 2181 section 5.4.1)"
	externalSRV = "ports of an ExternalName service have SRV records, as in SkyDNS; CoreDNS does not implement them"
	keepCNAME   = "the CNAME record is the answer, even if its target has no records of the type (RFC 1034 section 4.3.2)"
	targetRcode = "the CNAME record with the rcode of its target (RFC 6604 section 3)"
	circle      = "a loop of CNAME records has no answer; NODATA would claim that the records do not exist"
	reverse6    = "IPv6 addresses have names too (RFC 3596 section 2.5)"
	hasPTR      = "the name has a PTR record, so it exists: NODATA"
	noService   = "slices without their Service (here svc2) have no names, and a PTR record names something that exists"
)

type deviation struct {
	why    string
	answer string // in the form of Gist
}

// deviations are the cases in which our answer intentionally differs from the peer's.
// docs/appendix/deviations.md lists them.
var deviations = map[string]deviation{
	"answer-table-coredns-1.15/015": {hasTXT, `NOERROR`},
	"answer-table-coredns-1.15/019": {anyIsHINFO, `NOERROR HINFO "RFC8482" ""`},
	"answer-table-coredns-1.15/033": {nonTerminal, `NOERROR`},
	"answer-table-coredns-1.15/123": {onlyCNAME, `NOERROR CNAME www.example.test.`},
	"answer-table-coredns-1.15/125": {externalSRV, `NOERROR SRV 0 100 80 www.example.test.`},
	"answer-table-coredns-1.15/129": {keepCNAME, `NOERROR CNAME web.alpha.svc.cluster.local.`},
	"answer-table-coredns-1.15/131": {targetRcode, `NXDOMAIN CNAME missing.example.test.`},
	"answer-table-coredns-1.15/135": {circle, `SERVFAIL ede 0`},
	"answer-table-coredns-1.15/137": {targetRcode, `NXDOMAIN CNAME nosuch.alpha.svc.cluster.local.`},
	"answer-table-coredns-1.15/159": {hasPTR, `NOERROR`},

	"answer-table-skydns-3.11/003": {nonTerminal, `NOERROR`},
	"answer-table-skydns-3.11/005": {nonTerminal, `NOERROR`},
	"answer-table-skydns-3.11/007": {nonTerminal, `NOERROR`},
	"answer-table-skydns-3.11/009": {nonTerminal, `NOERROR`},
	"answer-table-skydns-3.11/011": {nonTerminal, `NOERROR`},
	"answer-table-skydns-3.11/015": {hasTXT, `NOERROR`},
	"answer-table-skydns-3.11/019": {anyIsHINFO, `NOERROR HINFO "RFC8482" ""`},
	"answer-table-skydns-3.11/031": {noPortZero, `NXDOMAIN`},
	"answer-table-skydns-3.11/035": {noPortZero, `NXDOMAIN`},
	"answer-table-skydns-3.11/041": {bothFamily, `NOERROR AAAA fd00:10:96::a03`},
	"answer-table-skydns-3.11/063": {noPortZero, `NXDOMAIN`},
	"answer-table-skydns-3.11/109": {emptyNot, `NOERROR`},
	"answer-table-skydns-3.11/111": {emptyNot, `NOERROR`},
	"answer-table-skydns-3.11/113": {emptyNot, `NOERROR`},
	"answer-table-skydns-3.11/121": {ownTTL, `NOERROR AAAA 2001:db8::80 CNAME www.example.test.`},
	"answer-table-skydns-3.11/123": {onlyCNAME, `NOERROR CNAME www.example.test.`},
	"answer-table-skydns-3.11/125": {noForeign, `NOERROR SRV 10 100 80 www.example.test.`},
	"answer-table-skydns-3.11/127": {ownTTL, `NOERROR A 192.0.2.80 CNAME alias.example.test. CNAME www.example.test.`},
	"answer-table-skydns-3.11/129": {keepCNAME, `NOERROR CNAME web.alpha.svc.cluster.local.`},
	"answer-table-skydns-3.11/131": {targetRcode, `NXDOMAIN CNAME missing.example.test.`},
	"answer-table-skydns-3.11/135": {circle, `SERVFAIL ede 0`},
	"answer-table-skydns-3.11/137": {targetRcode, `NXDOMAIN CNAME nosuch.alpha.svc.cluster.local.`},
	"answer-table-skydns-3.11/149": {reverse6, `NOERROR PTR dual.alpha.svc.cluster.local.`},
	"answer-table-skydns-3.11/159": {hasPTR, `NOERROR`},

	"coredns-plugin-kubernetes/095": {noService, `NOERROR PTR double-ep.svc1.testns.svc.cluster.local.`},
}

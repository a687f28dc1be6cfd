package forward

import (
	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dnswire"
)

// rdataFields are the fields of RDATA that have to be there: a digit for so many octets, n for a name, s for an octet that says
// how many follow it, and * for the rest, which may be nothing. miekg/dns takes RDATA that ends before a field for a record
// without it: an SRV record that names nobody, or an NSEC3 record that it writes, for the client, so that nobody can read it.
var rdataFields = map[uint16]string{
	dns.TypeA: "4", dns.TypeAAAA: "88",
	dns.TypeNS: "n", dns.TypeCNAME: "n", dns.TypePTR: "n", dns.TypeDNAME: "n", dns.TypeMB: "n", dns.TypeMD: "n", dns.TypeMF: "n",
	dns.TypeMG: "n", dns.TypeMR: "n", dns.TypeNSAPPTR: "n",
	dns.TypeMX: "2n", dns.TypeAFSDB: "2n", dns.TypeKX: "2n", dns.TypeRT: "2n", dns.TypeLP: "2n",
	dns.TypeRP: "nn", dns.TypeMINFO: "nn", dns.TypeTALINK: "nn", dns.TypePX: "2nn",
	dns.TypeSOA: "nn44444", dns.TypeSRV: "222n", dns.TypeNAPTR: "22sssn", dns.TypeSVCB: "2n*", dns.TypeHTTPS: "2n*",
	dns.TypeHINFO: "ss", dns.TypeX25: "s", dns.TypeGPOS: "sss", dns.TypeCAA: "1s*", dns.TypeURI: "22*", dns.TypeLOC: "1111444",
	dns.TypeNID: "28", dns.TypeL32: "24", dns.TypeL64: "28", dns.TypeEUI48: "6", dns.TypeEUI64: "8",
	dns.TypeDS: "211*", dns.TypeCDS: "211*", dns.TypeDLV: "211*", dns.TypeTA: "211*", dns.TypeSSHFP: "11*", dns.TypeTLSA: "111*",
	dns.TypeSMIMEA: "111*", dns.TypeCERT: "221*", dns.TypeZONEMD: "411*", dns.TypeCSYNC: "42*",
	dns.TypeDNSKEY: "211*", dns.TypeCDNSKEY: "211*", dns.TypeKEY: "211*", dns.TypeRKEY: "211*",
	dns.TypeRRSIG: "2114442n*", dns.TypeSIG: "2114442n*", dns.TypeNSEC: "n*", dns.TypeNXT: "n*",
	dns.TypeNSEC3: "112ss*", dns.TypeNSEC3PARAM: "112s",
}

// hasWholeRDATA reports whether no record of a message that miekg/dns has read, from at to its end, lacks a field.
func hasWholeRDATA(message []byte, at int, records []dns.RR) bool {
	for _, rr := range records {
		data, end := dnswire.Find(message, at)
		if end == 0 {
			return false
		}
		if fields, ok := rdataFields[rr.Header().Rrtype]; ok && !hasFields(message[:end], data, fields) {
			return false
		} else if !ok && !isReadAgain(rr) {
			return false
		}
		at = end
	}
	return true
}

// hasFields reports whether the RDATA from at to the end of data is those fields, and no more.
func hasFields(data []byte, at int, fields string) bool {
	for _, field := range fields {
		switch {
		case field == '*':
			return at <= len(data)
		case field == 'n':
			at = dnswire.NameEnd(data, at)
		case at >= len(data):
			return false
		case field == 's':
			at += 1 + int(data[at])
		default:
			at += int(field - '0')
		}
		if at > len(data) {
			return false
		}
	}
	return at == len(data)
}

// isReadAgain reports whether a record of a rare type can be read by those that it is sent on to, if it can be sent on at all.
func isReadAgain(rr dns.RR) bool {
	wire := make([]byte, dns.Len(rr)+1)
	size, err := dns.PackRR(rr, wire, 0, nil, false)
	if err != nil {
		return true
	}
	_, _, err = dns.UnpackRR(wire[:size], 0)
	return err == nil
}

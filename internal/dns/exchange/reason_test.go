package exchange

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/node-dns/node-dns/internal/test/dnstest"
)

// TestReason: the status once showed "current time 2026-11-22T17:50:33Z is after 2026-" and "valid
// for dns.site.example, no".
func TestReason(t *testing.T) {
	cert := &x509.Certificate{NotBefore: time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC), NotAfter: time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)}
	s := dnstest.NewTLSServer(t, "")
	verify := func(roots *x509.CertPool, name string, at time.Time) error {
		conn, err := tls.Dial("tcp", s.Addr().String(), &tls.Config{RootCAs: roots, ServerName: name, Time: func() time.Time { return at }})
		if err == nil {
			conn.Close()
			t.Fatalf("%s is accepted", name)
		}
		return err
	}
	for _, test := range []struct {
		name string
		err  error
		want string
	}{
		{"expired", &tls.CertificateVerificationError{Err: x509.CertificateInvalidError{Cert: cert, Reason: x509.Expired, Detail: "current time 2026-11-22T17:50:33Z is after 2026-11-21T00:00:00Z"}}, "certificate refused: expired on 2026-11-21"},
		{"certificate not valid yet", &tls.CertificateVerificationError{Err: x509.CertificateInvalidError{Cert: cert, Reason: x509.Expired, Detail: "current time 2026-11-01T17:50:33Z is before 2026-11-20T00:00:00Z"}}, "certificate refused: not valid before 2026-11-20"},
		{"real expired certificate", verify(s.CertPool(), dnstest.TLSName, time.Date(2226, 1, 1, 0, 0, 0, 0, time.UTC)), "certificate refused: expired on 20*"},
		{"real certificate not valid yet", verify(s.CertPool(), dnstest.TLSName, time.Unix(0, 0)), "certificate refused: not valid before 20*"},
		{"another name", verify(s.CertPool(), "dns.site.example", time.Now()), "certificate refused: not issued for dns.site.example"},
		{"an authority that is not known", verify(x509.NewCertPool(), dnstest.TLSName, time.Now()), "certificate refused: signed by an unknown authority"},
		{"long text with spaces", errors.New(strings.Repeat("many words ", 20)), strings.Repeat("many words ", 10) + "many ..."},
		{"long word", errors.New(strings.Repeat("x", 200)), strings.Repeat("x", 116) + " ..."},
		{"text of the maximum length", errors.New(strings.Repeat("x", 120)), strings.Repeat("x", 120)},
		{"terminal control characters", errors.New("a\x1b[2Jb"), "a?[2Jb"},
	} {
		want, isBeginning := strings.CutSuffix(test.want, "*")
		if got := Reason(test.err); got != want && (!isBeginning || !strings.HasPrefix(got, want)) {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

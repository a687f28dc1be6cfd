package exchange

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"os"
	"strings"
	"syscall"
	"time"
)

// Why a question has no response.
var (
	ErrTimeout     = errors.New("timed out")
	ErrClosed      = errors.New("forwarding after the end")
	ErrStrays      = errors.New("too many messages that are no response")
	ErrStreamEnded = errors.New("connection ended")
	errStreamFull  = errors.New("too many questions on one connection")
)

// IsLocal reports whether err is this host's fault, which says nothing about a
// server: no descriptors, no memory, no ports.
func IsLocal(err error) bool {
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return false
	}
	switch errno {
	case syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.EADDRNOTAVAIL:
		return true
	}
	return false
}

// IsSilence reports whether nothing came from a server.
func IsSilence(err error) bool {
	return errors.Is(err, ErrTimeout) || errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded)
}

// IsNetwork reports whether the network said that a server is out of reach.
func IsNetwork(err error) bool {
	var errno syscall.Errno
	return errors.As(err, &errno) && errno != syscall.ETIMEDOUT
}

// Reason says in a few words why a try failed. The words may come from the
// network (a certificate has names in it), and go to logs and to clients: only
// printable ASCII passes, and not much of it.
func Reason(err error) string {
	var errno syscall.Errno
	var certificate *tls.CertificateVerificationError
	switch {
	case IsSilence(err):
		return ErrTimeout.Error()
	case errors.Is(err, ErrNoPort):
		return ErrNoPort.Error()
	case errors.As(err, &errno):
		return errno.Error()
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "connection closed"
	case errors.As(err, &certificate):
		return printable("certificate refused: " + whyRefused(certificate.Err))
	}
	return printable(err.Error())
}

// whyRefused says in a few words why a certificate was not believed. crypto/x509 adds names and dates that are longer than a reason may be,
// and were cut in their middle.
func whyRefused(err error) string {
	var invalid x509.CertificateInvalidError
	var hostname x509.HostnameError
	var authority x509.UnknownAuthorityError
	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired && invalid.Cert != nil:
		if strings.Contains(invalid.Detail, " is before ") {
			return "not valid before " + day(invalid.Cert.NotBefore)
		}
		return "expired on " + day(invalid.Cert.NotAfter)
	case errors.As(err, &hostname):
		return "not issued for " + hostname.Host
	case errors.As(err, &authority):
		return "signed by an unknown authority"
	}
	return err.Error()
}

// day is the date of a certificate, which is in UTC.
func day(t time.Time) string { return t.Format(time.DateOnly) }

// printable keeps what may be shown. A longer text ends with dots, behind a whole word.
func printable(text string) string {
	const longest = 120
	if len(text) > longest {
		text = text[:longest-len(" ...")]
		if end := strings.LastIndexByte(text, ' '); end > longest/2 {
			text = text[:end]
		}
		text += " ..."
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, text)
}

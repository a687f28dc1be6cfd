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

// Reasons why a question has no response.
var (
	ErrTimeout     = errors.New("timed out")
	ErrClosed      = errors.New("forwarder is closed")
	ErrStrays      = errors.New("too many unrelated messages")
	ErrStreamEnded = errors.New("connection ended")
	errStreamFull  = errors.New("too many queries on one connection")
)

// IsLocal reports whether err is a problem of this host that says nothing about the server: no file
// descriptors, memory or ports. Without a free port, connect(2) returns EADDRNOTAVAIL for TCP and
// EAGAIN for UDP (inet_autobind), and bind(2) returns EADDRINUSE.
func IsLocal(err error) bool {
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return false
	}
	switch errno {
	case syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.EADDRNOTAVAIL, syscall.EAGAIN, syscall.EADDRINUSE:
		return true
	}
	return false
}

// IsSilence reports whether err means that the server sent nothing.
func IsSilence(err error) bool {
	return errors.Is(err, ErrTimeout) || errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded)
}

// IsNetwork reports whether err is a network error that says that the server is unreachable.
func IsNetwork(err error) bool {
	var errno syscall.Errno
	return errors.As(err, &errno) && errno != syscall.ETIMEDOUT
}

// Reason returns a short reason for a failed attempt. Its text may come from the network (a
// certificate contains names) and goes to logs and clients, so it is limited in length and to
// printable ASCII.
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

// whyRefused returns a short reason why a certificate was rejected. The messages of crypto/x509
// contain names and dates that exceed the length limit, and used to be cut in the middle.
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

// day returns the date of a certificate time, which is in UTC.
func day(t time.Time) string { return t.Format(time.DateOnly) }

// printable returns text with unprintable characters replaced. It cuts longer text after a whole
// word and appends an ellipsis.
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

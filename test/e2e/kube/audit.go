package kube

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"time"
)

const (
	auditPolicyFile = "audit-policy.yaml"
	auditLogFile    = "audit.log"
)

// auditPolicy records each request once, when it arrives: before the queues of API priority and
// fairness, so those that it rejects are recorded too.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [ResponseStarted, ResponseComplete, Panic]
rules: [{level: Metadata}]
`

// Request is a request in kube-apiserver's audit log.
type Request struct {
	At    time.Time
	Agent string // User-Agent
	Verb  string // list, watch, get, or another one of Kubernetes
	URI   *url.URL
}

func (c *Cluster) writeAuditPolicy() error {
	if !c.config.Audit {
		return nil
	}
	return os.WriteFile(c.path(auditPolicyFile), []byte(auditPolicy), 0o600)
}

// auditFlags are kube-apiserver's flags for the audit log. Each request is in the file before it is
// answered.
func (c *Cluster) auditFlags() []string {
	if !c.config.Audit {
		return nil
	}
	return []string{
		"--audit-policy-file=" + c.path(auditPolicyFile), "--audit-log-path=" + c.path(auditLogFile),
		"--audit-log-mode=blocking", "--audit-log-maxsize=4096",
	}
}

// Requests returns the requests since the start, or since the last call of ForgetRequests.
func (c *Cluster) Requests() ([]Request, error) {
	file, err := os.Open(c.path(auditLogFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var all []Request
	for decoder := json.NewDecoder(bufio.NewReader(file)); ; {
		var event struct {
			RequestReceivedTimestamp time.Time
			UserAgent, Verb          string
			RequestURI               string
		}
		switch err := decoder.Decode(&event); {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF): // an event that is being written
			return all, nil
		case err != nil:
			return nil, fmt.Errorf("reading the audit log: %w", err)
		}
		uri, err := url.Parse(event.RequestURI)
		if err != nil {
			return nil, fmt.Errorf("reading the audit log: %w", err)
		}
		all = append(all, Request{At: event.RequestReceivedTimestamp, Agent: event.UserAgent, Verb: event.Verb, URI: uri})
	}
}

// ForgetRequests empties the audit log. kube-apiserver appends to it, so it may be running.
func (c *Cluster) ForgetRequests() error {
	err := os.Truncate(c.path(auditLogFile), 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

package control

import (
	"context"
	"time"
)

const queryPath = "/v1/query"

// Question is one DNS question, answered like a client's.
type Question struct {
	Name  string `json:"name"`            // fully qualified, in zone file format
	Type  string `json:"type"`            // empty means A
	Class string `json:"class,omitempty"` // empty means IN
	// Namespace requests the answer for a pod of this namespace whose search list the node walks
	// (autopath). If it is empty, no list is walked.
	Namespace string `json:"namespace,omitempty"`
	Trace     bool   `json:"trace,omitempty"` // whether to include the steps to the answer
	// As is the client to answer for: its address, or NAMESPACE/NAME of a pod on this node. That
	// client's limits apply, and its search list is walked. If it is empty, no limits apply. For
	// admins only.
	As     string `json:"as,omitempty"`
	Fresh  bool   `json:"fresh,omitempty"`  // bypass the cache, which does not store the answer; for admins only
	DNSSEC bool   `json:"dnssec,omitempty"` // request signatures: the DO bit, RFC 3225
	CD     bool   `json:"cd,omitempty"`     // disable validation: the CD bit, RFC 4035 section 3.2.2
}

// Answer is what a client would get, with its origin.
type Answer struct {
	APIVersion string          `json:"apiVersion"`
	Kind       string          `json:"kind"`
	Name       string          `json:"name"`
	Type       string          `json:"type"`
	Class      string          `json:"class"`
	Rcode      string          `json:"rcode"`
	Flags      []string        `json:"flags"`  // in dig's notation
	Answer     []Record        `json:"answer"` // in zone file format
	Authority  []Record        `json:"authority"`
	Errors     []ExtendedError `json:"extendedErrors"`
	By         By              `json:"by"`
	Failure    string          `json:"failure,omitempty"` // reason why there is no response; Rcode is empty then
	Took       time.Duration   `json:"tookNanoseconds"`
	Trace      []TraceStep     `json:"trace,omitempty"`  // set if Question.Trace is
	Client     *Client         `json:"client,omitempty"` // set if Question.As is
}

// TraceStep is one step on the way to an answer.
type TraceStep struct {
	At   time.Duration `json:"atNanoseconds"` // since the question was sent
	What string        `json:"what"`
}

// Client is the client that a question was answered for.
type Client struct {
	Address string `json:"address"`
	Pod     string `json:"pod,omitempty"`     // NAMESPACE/NAME
	Refused bool   `json:"refused,omitempty"` // by access rules or limits; extendedErrors hold the reason
}

// Record is a resource record in zone file format.
type Record struct {
	Name  string `json:"name"`
	TTL   uint32 `json:"ttl"`
	Class string `json:"class"`
	Type  string `json:"type"`
	Data  string `json:"data"`
}

// ExtendedError is an extended DNS error (RFC 8914).
type ExtendedError struct {
	Code uint16 `json:"code"`
	Name string `json:"name"` // name in the IANA registry
	Text string `json:"text,omitempty"`
}

// By describes what answered.
type By struct {
	// Who is cluster, upstream, local data, localhost, itself, rule or nobody; or server if a
	// server was queried directly.
	Who    string        `json:"who"`
	Server string        `json:"server,omitempty"` // nameserver that sent the answer; empty for our own answers
	Target string        `json:"target,omitempty"` // server that was asked for the target of one of our aliases
	State  string        `json:"state,omitempty"`  // of Server: up, down, unknown
	RTT    time.Duration `json:"rttNanoseconds,omitempty"`
	// Transport is the transport used for Server if dnsOverTLS is opportunistic or the server was
	// queried directly. It is empty for cached answers.
	Transport string        `json:"transport,omitempty"`
	Domain    string        `json:"domain,omitempty"` // domain of the matching route
	Source    string        `json:"source,omitempty"` // source of that route's configuration
	Cached    bool          `json:"cached"`
	Age       time.Duration `json:"ageNanoseconds,omitempty"` // age of a cached answer
	Stale     bool          `json:"stale"`                    // whether the answer had expired
	Walked    bool          `json:"walked,omitempty"`         // whether the node walked the pod's search list
}

// Query sends a question to the daemon that listens on path.
func Query(ctx context.Context, path string, question Question) (Answer, error) {
	return ask[Answer](ctx, path, queryPath, question)
}

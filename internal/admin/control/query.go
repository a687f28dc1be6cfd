package control

import (
	"context"
	"time"
)

const queryPath = "/v1/query"

// Question is one question of DNS, answered as a client's is.
type Question struct {
	Name  string `json:"name"`            // whole, as zone files write it
	Type  string `json:"type"`            // "": A
	Class string `json:"class,omitempty"` // "": IN
	// Namespace has it answered as for a pod there whose search list the node walks (autopath). "": nobody's list is walked.
	Namespace string `json:"namespace,omitempty"`
	Trace     bool   `json:"trace,omitempty"` // with the steps to the answer
	// As is the client that it is answered for: its address, or NAMESPACE/NAME of a pod on this node. It is refused what that client
	// is, and the client's search list is walked. "": nobody is refused. For admins.
	As     string `json:"as,omitempty"`
	Fresh  bool   `json:"fresh,omitempty"`  // past the cache, which does not remember it; for admins
	DNSSEC bool   `json:"dnssec,omitempty"` // with the signatures: the DO bit, RFC 3225
	CD     bool   `json:"cd,omitempty"`     // unvalidated: the CD bit, RFC 4035 section 3.2.2
}

// Answer is what a client would get, and where it is from.
type Answer struct {
	APIVersion string          `json:"apiVersion"`
	Kind       string          `json:"kind"`
	Name       string          `json:"name"`
	Type       string          `json:"type"`
	Class      string          `json:"class"`
	Rcode      string          `json:"rcode"`
	Flags      []string        `json:"flags"`  // as dig names them
	Answer     []Record        `json:"answer"` // as zone files write them
	Authority  []Record        `json:"authority"`
	Errors     []ExtendedError `json:"extendedErrors"`
	By         By              `json:"by"`
	Failure    string          `json:"failure,omitempty"` // why there is no response: Rcode is "" then
	Took       time.Duration   `json:"tookNanoseconds"`
	Trace      []TraceStep     `json:"trace,omitempty"`  // by Question.Trace
	Client     *Client         `json:"client,omitempty"` // by Question.As
}

// TraceStep is what was done for an answer, and when.
type TraceStep struct {
	At   time.Duration `json:"atNanoseconds"` // since the question was asked
	What string        `json:"what"`
}

// Client is for whom a question was answered.
type Client struct {
	Address string `json:"address"`
	Pod     string `json:"pod,omitempty"`     // NAMESPACE/NAME
	Refused bool   `json:"refused,omitempty"` // by who may ask, or by its limits: extendedErrors say why
}

// Record is a resource record, as zone files write its parts.
type Record struct {
	Name  string `json:"name"`
	TTL   uint32 `json:"ttl"`
	Class string `json:"class"`
	Type  string `json:"type"`
	Data  string `json:"data"`
}

// ExtendedError says why the answer is as it is: RFC 8914.
type ExtendedError struct {
	Code uint16 `json:"code"`
	Name string `json:"name"` // IANA's
	Text string `json:"text,omitempty"`
}

// By says who answered.
type By struct {
	// Who is cluster, upstream, local data, localhost, itself, rule or nobody; or server, for the one that was asked directly.
	Who    string        `json:"who"`
	Server string        `json:"server,omitempty"` // the nameserver that the answer is from; "": it is our own
	Target string        `json:"target,omitempty"` // the one that was asked for what an alias of ours leads to
	State  string        `json:"state,omitempty"`  // of Server: up, down, unknown
	RTT    time.Duration `json:"rttNanoseconds,omitempty"`
	// Transport is what Server is asked over now, where dnsOverTLS is opportunistic, or was asked directly; "" too of an answer from memory.
	Transport string        `json:"transport,omitempty"`
	Domain    string        `json:"domain,omitempty"` // of the route that the name takes
	Source    string        `json:"source,omitempty"` // who said so
	Cached    bool          `json:"cached"`
	Age       time.Duration `json:"ageNanoseconds,omitempty"` // of one that is cached
	Stale     bool          `json:"stale"`                    // it had expired
	Walked    bool          `json:"walked,omitempty"`         // the node went through the pod's search list
}

// Query puts a question to the daemon that listens on path.
func Query(ctx context.Context, path string, question Question) (Answer, error) {
	return ask[Answer](ctx, path, queryPath, question)
}

package dnsserver

// Inquiry is what an admin wants to know beside the answer to a question.
type Inquiry struct {
	// SkipCache has the nameservers asked whatever is remembered, and remembers nothing of what they say.
	SkipCache bool
}

// SkipsCache reports whether memory has no say in the answer.
func (q *Query) SkipsCache() bool { return q.Inquiry != nil && q.Inquiry.SkipCache }

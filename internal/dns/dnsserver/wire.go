package dnsserver

// onWire calls Config.Wire for a message that accept let through, and appends the response to dst.
// Without a response, the message must be parsed. It takes no MaxInFlight slot, because it finishes
// before the receiver or the connection's goroutine handles another message. It reads the message
// into q; isWire is false if the message is not a WireQuery.
func (r *responder) onWire(x *exchange, q *WireQuery, dst []byte) (response []byte, isWire bool) {
	isWire = q.read(x, int(r.largest.Load()))
	if !isWire || r.cfg.Wire == nil {
		return nil, isWire
	}
	defer func() {
		if p := recover(); p != nil {
			r.panicked(*x, p)
			response = nil // let the Handler try
		}
	}()
	response, ok := r.cfg.Wire(dst, q)
	if !ok {
		return nil, true
	}
	return r.finish(response, q), true
}

func (r *responder) countResponse(response []byte, count *tally) {
	count.answered.Add(1)
	if isTruncated(response) {
		count.truncated.Add(1)
	}
}

// finish adds the server's own parts to a response to q.
func (r *responder) finish(response []byte, q *WireQuery) []byte {
	if q.cookie == 0 {
		return response
	}
	return r.addCookie(response, q.Msg[q.cookie:], q.Client.Addr())
}

package dnsserver

// onWire has Config.Wire answer a message that accept let pass: the response is appended to dst; without one the message
// must be parsed. It takes none of the MaxInFlight places, since it is done before another message is received, or on the
// goroutine that a connection has. It reads the message into q; isWire is false for what is no WireQuery.
func (r *responder) onWire(x *exchange, q *WireQuery, dst []byte) (response []byte, isWire bool) {
	isWire = q.read(x, int(r.largest.Load()))
	if !isWire || r.cfg.Wire == nil {
		return nil, isWire
	}
	defer func() {
		if p := recover(); p != nil {
			r.panicked(*x, p)
			response = nil // the Handler may know better
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

// finish adds to a response to q what is no business of who made it.
func (r *responder) finish(response []byte, q *WireQuery) []byte {
	if q.cookie == 0 {
		return response
	}
	return r.addCookie(response, q.Msg[q.cookie:], q.Client.Addr())
}

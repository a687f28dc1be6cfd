package control

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

const (
	// streamPatience is the maximum time between two reads of a client. A user with a pager needs
	// time, but a stopped process must not keep one of maxClients forever.
	streamPatience = 10 * time.Minute
	// streamBuffer is a size in bytes.
	streamBuffer = 32 << 10
)

// stream answers a question of type Q with any number of values, one JSON value per line. send
// returns an error if the client has disconnected. flush sends the buffered values. If answer
// returns an error after the first send, the stream is cut so that the client notices that it is
// incomplete. stream returns nil if answer is nil.
func stream[Q, A any](answer func(ctx context.Context, question Q, send func(A) error, flush func() error) error) http.Handler {
	if answer == nil {
		return nil
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var question Q
		if err := readQuestion(w, r, &question); err != nil {
			reply(w, nil, err)
			return
		}
		connection := http.NewResponseController(w)
		_ = connection.SetReadDeadline(time.Time{}) // ends the question's deadline: nothing more is read, and the context ends with the connection
		out := bufio.NewWriterSize(streamWriter{w, connection}, streamBuffer)
		lines := json.NewEncoder(out)
		began := false
		send := func(value A) error {
			began = true
			return lines.Encode(value)
		}
		flush := func() error {
			began = true // the client now sees a success status
			return errors.Join(out.Flush(), connection.Flush())
		}
		err := answer(r.Context(), question, send, flush)
		if err != nil && !began {
			reply(w, nil, err)
			return
		}
		if errors.Join(err, out.Flush()) != nil {
			panic(http.ErrAbortHandler)
		}
	})
}

// unflushed adapts an answer without a flush parameter for stream. It returns nil if answer is nil.
func unflushed[Q, A any](answer func(ctx context.Context, question Q, send func(A) error) error) func(context.Context, Q, func(A) error, func() error) error {
	if answer == nil {
		return nil
	}
	return func(ctx context.Context, question Q, send func(A) error, _ func() error) error {
		return answer(ctx, question, send)
	}
}

// streamWriter sets a new deadline for each write.
type streamWriter struct {
	w          http.ResponseWriter
	connection *http.ResponseController
}

func (s streamWriter) Write(data []byte) (int, error) {
	if err := s.connection.SetWriteDeadline(time.Now().Add(streamPatience)); err != nil {
		return 0, err
	}
	return s.w.Write(data)
}

// follow sends a question to the daemon that listens on path and calls each with every value of the
// answer as it arrives, until each returns an error or ctx ends. question is nil if the request has
// no body.
func follow[A any](ctx context.Context, path, endpoint string, question any, each func(A) error) error {
	body, err := open(ctx, path, endpoint, question)
	if err != nil {
		return err
	}
	defer body.Close()
	lines := json.NewDecoder(body)
	for {
		var value A
		err := lines.Decode(&value)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("the output is incomplete: %w", noAnswer(err))
		}
		if err := each(value); err != nil {
			return err
		}
	}
}

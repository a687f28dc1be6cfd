package kubewire

import (
	"encoding/json"
	"fmt"
	"time"
)

// Status is the API server's reason for rejecting a request or ending a watch.
type Status struct {
	Code       int
	Reason     string        // one word, such as Forbidden or Expired
	Message    string        // text for display
	RetryAfter time.Duration // 0 if the server gives none
	// TooLargeVersion means that the requested version is in the server's future.
	TooLargeVersion bool
}

// tooLargeVersion is the reason of a cause in the status details: k8s.io/apimachinery
// CauseTypeResourceVersionTooLarge.
const tooLargeVersion = "ResourceVersionTooLarge"

// ParseStatus parses the body of an unsuccessful response. A body that cannot be decoded becomes
// the message: proxies and the server's own filters send plain text.
func ParseStatus(code int, contentType string, body []byte) Status {
	var status Status
	format, err := ParseFormat(contentType)
	switch {
	case err != nil:
	case format == Protobuf:
		var raw []byte
		if raw, err = unwrap(body); err == nil {
			status, err = parseStatus(raw)
		}
	default:
		status, err = parseStatusJSON(body)
	}
	if err != nil {
		status = Status{Message: fmt.Sprintf("%.200s", body)}
	}
	status.Code = code
	return status
}

// parseStatus decodes a meta/v1 Status: 3 message, 4 reason, 5 details, 6 code.
func parseStatus(message []byte) (s Status, err error) {
	f := fields{rest: message}
	for f.next() {
		switch {
		case f.isBytes(3):
			s.Message = string(f.bytes)
		case f.isBytes(4):
			s.Reason = string(f.bytes)
		case f.isBytes(5):
			err = s.parseDetails(f.bytes)
		case f.isVarint(6):
			s.Code = int(int32(f.value))
		}
		if err != nil {
			return s, err
		}
	}
	return s, f.err
}

// parseDetails decodes StatusDetails: 4 causes (1 reason), 5 retryAfterSeconds.
func (s *Status) parseDetails(message []byte) error {
	f := fields{rest: message}
	for f.next() {
		switch {
		case f.isBytes(4):
			reason, err := field(f.bytes, 1)
			if err != nil {
				return err
			}
			s.TooLargeVersion = s.TooLargeVersion || string(reason) == tooLargeVersion
		case f.isVarint(5):
			s.RetryAfter = seconds(int32(f.value))
		}
	}
	return f.err
}

// statusJSON is a meta/v1 Status in JSON.
type statusJSON struct {
	Message string `json:"message"`
	Reason  string `json:"reason"`
	Code    int    `json:"code"`
	Details struct {
		Causes []struct {
			Reason string `json:"reason"`
		} `json:"causes"`
		RetryAfterSeconds int32 `json:"retryAfterSeconds"`
	} `json:"details"`
}

func parseStatusJSON(data []byte) (Status, error) {
	var from statusJSON
	if err := json.Unmarshal(data, &from); err != nil {
		return Status{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	s := Status{
		Code: from.Code, Reason: from.Reason, Message: from.Message,
		RetryAfter: seconds(from.Details.RetryAfterSeconds),
	}
	for _, cause := range from.Details.Causes {
		s.TooLargeVersion = s.TooLargeVersion || cause.Reason == tooLargeVersion
	}
	return s, nil
}

func seconds(n int32) time.Duration { return time.Duration(max(n, 0)) * time.Second }

package kubewire

import "time"

// triggerAnnotation says on an EndpointSlice when that happened to its Service or to a Pod for which it was written. Controllers
// take it off with a change that they know no such time of, as the end of a Pod (k8s.io/endpointslice, utils.go).
const triggerAnnotation = "endpoints.kubernetes.io/last-change-trigger-time"

// maxTrigger is the length of the longest text that RFC 3339 has for a time to the nanosecond.
const maxTrigger = len("2006-01-02T15:04:05.999999999+07:00")

// parseTrigger returns the time that text is; the zero time for anything else, and for what int64 has no nanoseconds of: the
// annotation is anybody's who may write a slice, and no answer depends on it.
func parseTrigger(text []byte) time.Time {
	if len(text) == 0 || len(text) > maxTrigger {
		return time.Time{}
	}
	at, err := time.Parse(time.RFC3339Nano, string(text))
	if at = at.UTC(); err != nil || at.Year() < 1970 || at.Year() > 2261 {
		return time.Time{}
	}
	return at
}

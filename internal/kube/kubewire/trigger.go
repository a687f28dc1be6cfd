package kubewire

import "time"

// triggerAnnotation is the annotation of an EndpointSlice with the time of the Service or Pod
// change that it was written for. Controllers remove it if a change has no known time, such as the
// end of a Pod (k8s.io/endpointslice, utils.go).
const triggerAnnotation = "endpoints.kubernetes.io/last-change-trigger-time"

// maxTrigger is the length of the longest RFC 3339 time with nanoseconds.
const maxTrigger = len("2006-01-02T15:04:05.999999999+07:00")

// parseTrigger parses the annotation. It returns the zero time if it is invalid or does not fit
// into int64 nanoseconds. Anyone who may write a slice controls the annotation, so no answer
// depends on it.
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

package kubewire

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/node-dns/node-dns/internal/test/kubetest"
)

// TestTriggered: a valid trigger time is kept, any other annotation counts as missing, and the
// slice is accepted in both cases.
func TestTriggered(t *testing.T) {
	rows := []struct {
		name string
		text string
		want time.Time
	}{
		{"format of the controllers", "2026-11-22T09:37:03Z", time.Date(2026, 11, 22, 9, 37, 3, 0, time.UTC)},
		{"nanoseconds", "2026-11-22T09:37:03.123456789Z", time.Date(2026, 11, 22, 9, 37, 3, 123456789, time.UTC)},
		{"time zone", "2026-11-22T09:37:03.5+05:30", time.Date(2026, 11, 22, 4, 7, 3, 5e8, time.UTC)},
		{"longest valid value", "2026-11-22T09:37:03.123456789+05:30", time.Date(2026, 11, 22, 4, 7, 3, 123456789, time.UTC)},
		{"too long", "2026-11-22T09:37:03." + strings.Repeat("1", 1000) + "Z", time.Time{}},
		{"empty", "", time.Time{}},
		{"not a time", "yesterday", time.Time{}},
		{"no zone", "2026-11-22T09:37:03", time.Time{}},
		{"invalid date", "2026-02-30T09:37:03Z", time.Time{}},
		{"seconds", "1700000000", time.Time{}},
		{"Go's zero time", "0001-01-01T00:00:00Z", time.Time{}},
		{"before 1970", "1969-12-31T23:59:59Z", time.Time{}},
		{"before 1970 because of the time zone", "1970-01-01T00:00:00+01:00", time.Time{}},
		{"beyond the range of nanoseconds", "2262-01-01T00:00:00Z", time.Time{}},
		{"year above 9999 in UTC", "9999-12-31T23:59:59-07:00", time.Time{}},
		{"control characters", "2026-11-22T09:37:03Z\n", time.Time{}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			s := kubetest.New()
			s.Set(triggered(row.text))
			for _, accept := range []string{Accept, "application/json"} {
				all, _ := readList(t, s, EndpointSlices, accept)
				if len(all) != 1 || all[0].Value == nil || !all[0].Triggered.Equal(row.want) || all[0].Triggered.IsZero() != row.want.IsZero() {
					t.Errorf("%s: %+v, want the time %v", accept, all, row.want)
				}
			}
		})
	}
}

// triggered returns a slice with this trigger annotation and two others.
func triggered(text string) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{
		Name: "s", Namespace: "shop", Labels: map[string]string{serviceLabel: "web"},
		Annotations: map[string]string{"a": "2020-01-01T00:00:00Z", triggerAnnotation: text, "z": "2021-01-01T00:00:00Z"},
	}}
}

// TestTriggeredElsewhere: no other kind has a trigger time, and neither does a deleted slice or one
// without a Service.
func TestTriggeredElsewhere(t *testing.T) {
	t.Parallel()
	const text = "2026-11-22T09:37:03Z"
	s := kubetest.New()
	meta := triggered(text).ObjectMeta
	ofNobody := triggered(text)
	ofNobody.Labels = nil
	s.Set(ofNobody)
	s.Set(&corev1.Service{ObjectMeta: meta})
	s.Set(&corev1.Endpoints{ObjectMeta: meta}) //lint:ignore SA1019 it is what old clusters have
	s.Set(&corev1.Pod{ObjectMeta: meta})
	s.Set(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Annotations: meta.Annotations}})
	for kind := range paths {
		for _, accept := range []string{Accept, "application/json"} {
			all, _ := readList(t, s, kind, accept)
			if len(all) != 1 || !all[0].Triggered.IsZero() {
				t.Errorf("%v as %s: %+v", kind, accept, all)
			}
		}
	}

	s = kubetest.New()
	s.Set(triggered(text))
	s.Delete("EndpointSlice", "shop", "s")
	for format, accept := range map[Format]string{Protobuf: Accept, JSON: "application/json"} {
		events := NewDecoder(EndpointSlices).Watch(readWatch(t, s, paths[EndpointSlices]+"?watch=1&resourceVersion=1000", accept), format)
		came, err1 := events.Next()
		went, err2 := events.Next()
		if err := errors.Join(err1, err2); err != nil || came.Object.Triggered.IsZero() || went.Type != Deleted || !went.Object.Triggered.IsZero() {
			t.Errorf("%s: %+v, then %+v, %v", accept, came, went, err)
		}
	}
}

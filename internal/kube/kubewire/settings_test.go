package kubewire

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestSettings: the data of a ConfigMap is kept, and the upstreams of OpenShift's DNS.
func TestSettings(t *testing.T) {
	for name, row := range map[string]struct {
		kind Kind
		list string
		want any
	}{
		"a ConfigMap": {
			ConfigMaps, `{"kind": "ConfigMapList", "metadata": {"resourceVersion": "9"}, "items": [
				{"metadata": {"name": "coredns", "namespace": "kube-system", "resourceVersion": "7"}, "data": {"Corefile": ".:53 {\n}\n"}, "binaryData": {"x": "AA=="}}]}`,
			ConfigMap{"Corefile": ".:53 {\n}\n"},
		},
		"an empty ConfigMap": {
			ConfigMaps, `{"kind": "ConfigMapList", "metadata": {"resourceVersion": "9"}, "items": [{"metadata": {"name": "coredns", "resourceVersion": "7"}}]}`, ConfigMap(nil),
		},
		"a DNS": {
			DNSes, `{"kind": "DNSList", "metadata": {"resourceVersion": "9"}, "items": [{"metadata": {"name": "default", "resourceVersion": "7"},
				"spec": {"logLevel": "Normal", "servers": [{"name": "corp", "ports": 1}], "upstreamResolvers": {"policy": "Sequential"}}}]}`,
			DNS{Servers: []byte(`[{"name": "corp", "ports": 1}]`), UpstreamResolvers: []byte(`{"policy": "Sequential"}`)},
		},
	} {
		var got []any
		_, err := NewDecoder(row.kind).List(strings.NewReader(row.list), JSON, func(o Object) error {
			got = append(got, o.Value)
			return nil
		})
		if diff := cmp.Diff([]any{row.want}, got); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", name, err, diff)
		}
		if _, err := NewDecoder(row.kind).object([]byte{}); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s, in protobuf: %v", name, err)
		}
	}
}

// TestManyTexts: a ConfigMap with an implausible number of keys is too big. 8 MiB of empty ones
// took 127 MB.
func TestManyTexts(t *testing.T) {
	var data strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&data, `"k%d": "", `, i)
	}
	list := `{"kind": "ConfigMapList", "metadata": {"resourceVersion": "9"}, "items": [{"metadata": {"name": "coredns", "resourceVersion": "7"}, "data": {` + data.String() + `"": ""}}]}`
	var got []Object
	if _, err := NewDecoder(ConfigMaps).List(strings.NewReader(list), JSON, func(o Object) error {
		got = append(got, o)
		return nil
	}); err != nil || len(got) != 1 || !errors.Is(got[0].TooBig, ErrTooBig) || got[0].Value != nil {
		t.Errorf("%d objects, %v", len(got), err)
	}
}

package kubewire

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestSettings: of a ConfigMap its data are kept, of OpenShift's DNS what says where names are asked.
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
		if _, err := NewDecoder(row.kind).object(nil); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s, in protobuf: %v", name, err)
		}
	}
}

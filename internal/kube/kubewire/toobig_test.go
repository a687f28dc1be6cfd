package kubewire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/node-dns/node-dns/internal/dns/zone"
	"github.com/node-dns/node-dns/internal/test/lab"
)

// TestTooBig: an object over a limit is reported without its value and takes little more memory
// than its bytes. The objects before and after it are not affected. 2.8 million empty endpoints in
// 8 MiB of JSON took 1.5 GB, and 932,056 subsets of one address took 284 MB.
func TestTooBig(t *testing.T) {
	if lab.RaceEnabled {
		t.Skip("computes in one goroutine; make test runs it without -race")
	}
	many := func(member string, n int) string { return strings.Repeat(member+",", n-1) + member }
	for _, row := range []struct {
		name   string
		kind   Kind
		member string // of the second object
	}{
		{"empty endpoints", EndpointSlices, `"endpoints":[` + many("{}", 2_600_000) + `]`},
		{"endpoints", EndpointSlices, `"endpoints":[` + many(`{"addresses":["10.0.0.1"]}`, maxEndpoints+1) + `]`},
		{"addresses of one endpoint", EndpointSlices, `"endpoints":[{"addresses":[` + many(`"::"`, 1_000_000) + `]}]`},
		{"ports", EndpointSlices, `"ports":[` + many("{}", 2_000_000) + `]`},
		{"empty subsets", Endpoints, `"subsets":[` + many("{}", 2_600_000) + `]`},
		{"subsets", Endpoints, `"subsets":[` + many(`{"addresses":[{"ip":"10.0.0.1"}]}`, maxSubsets+1) + `]`},
		{"addresses of many subsets", Endpoints, `"subsets":[` + many(`{"addresses":[`+many("{}", 500)+`]}`, 4000) + `]`},
		{"cluster addresses", Services, `"spec":{"clusterIPs":[` + many(`""`, 2_000_000) + `]}`},
		{"ports of a service", Services, `"spec":{"ports":[` + many(`{"port":80}`, maxPorts+1) + `]}`},
	} {
		t.Run(row.name, func(t *testing.T) {
			object := func(name, member string) string {
				return `{"metadata":{"name":"` + name + `","resourceVersion":"7","labels":{"kubernetes.io/service-name":"web"}},` + member + `}`
			}
			body := `{"metadata":{"resourceVersion":"9"},"items":[` + object("one", `"a":1`) + "," + object("big", row.member) + "," + object("two", `"a":1`) + "]}"
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			var got []string
			_, err := NewDecoder(row.kind).List(strings.NewReader(body), JSON, func(o Object) error {
				got = append(got, fmt.Sprint(o.Key.Name, " ", errors.Is(o.TooBig, ErrTooBig), " ", o.TooBig == nil || o.Value == nil))
				return nil
			})
			runtime.ReadMemStats(&after)
			if want := "[one false true big true true two false true]"; err != nil || fmt.Sprint(got) != want {
				t.Errorf("%v, %v: want %s", got, err, want)
			}
			if n := after.TotalAlloc - before.TotalAlloc; n > 200<<20 {
				t.Errorf("%d MiB were allocated for %d KiB", n>>20, len(body)>>10)
			}
		})
	}
}

// TestTooBigInProtobuf tests the limit of subsets in protobuf.
func TestTooBigInProtobuf(t *testing.T) {
	bytesField := func(number int, value string) string {
		return string(binary.AppendUvarint(binary.AppendUvarint(nil, uint64(number<<3|2)), uint64(len(value)))) + value
	}
	const subset = "\x12\x06\x0a\x04\x0a\x02::" // field 2: {1: {1: "::"}}
	meta := bytesField(1, bytesField(1, "big")+bytesField(6, "7"))
	for n, isTooBig := range map[int]bool{maxSubsets: false, maxSubsets + 1: true, 800_000: true} {
		o, err := NewDecoder(Endpoints).object([]byte(meta + strings.Repeat(subset, n)))
		if err != nil || o.Key.Name != "big" || o.Version != 7 || errors.Is(o.TooBig, ErrTooBig) != isTooBig || (o.Value == nil) != isTooBig {
			t.Errorf("%d subsets: %v, %v, %v", n, o.Key, o.TooBig, err)
		}
	}
}

// TestKeptByDecoder: the memory that a Decoder keeps between objects is bounded. Updates of one
// object, which the store counted once, filled 302 MiB with zones and 266 MiB with port lists.
func TestKeptByDecoder(t *testing.T) {
	if lab.RaceEnabled {
		t.Skip("computes in one goroutine; make test runs it without -race")
	}
	const name = `{"metadata":{"name":"a","namespace":"b","resourceVersion":"7","labels":{"kubernetes.io/service-name":"web"}},`
	for _, row := range []struct {
		name   string
		kind   Kind
		update func(i int) string // of the object
	}{
		{"zones", EndpointSlices, func(i int) string {
			return fmt.Sprintf(`"endpoints":[{"addresses":["::"],"zone":"%d%s"}]}`, i, strings.Repeat("z", 1<<20))
		}},
		{"names of ports", Services, func(i int) string {
			return fmt.Sprintf(`"spec":{"ports":[{"port":1,"name":"%d%s"}]}}`, i, strings.Repeat("p", 1<<20))
		}},
		{"lists of ports", Services, func(i int) string {
			ports := make([]string, maxPorts)
			for n := range ports {
				ports[n] = fmt.Sprintf(`{"port":%d}`, (n+i)%65536)
			}
			return `"spec":{"ports":[` + strings.Join(ports, ",") + `]}}`
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			decoder := NewDecoder(row.kind)
			before := heap()
			for i := range 25 {
				body := `{"metadata":{"resourceVersion":"9"},"items":[` + name + row.update(i) + `]}`
				if _, err := decoder.List(strings.NewReader(body), JSON, func(Object) error { return nil }); err != nil {
					t.Fatal(err)
				}
			}
			if grown := int64(heap()) - int64(before); grown > 4<<20 {
				t.Errorf("the Decoder keeps %d KiB", grown>>10)
			}
			runtime.KeepAlive(decoder)
		})
	}
}

func heap() uint64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// TestClusterIPsAreBounded: a Service has few addresses, whatever the API says. With 65,536
// addresses and 4,096 ports, one query for SRV records took a minute.
func TestClusterIPsAreBounded(t *testing.T) {
	for kind, member := range map[Kind]string{Services: `"clusterIPs"`, ServiceImports: `"ips"`} {
		body := `{"metadata":{"resourceVersion":"9"},"items":[{"metadata":{"name":"web","resourceVersion":"7"},"spec":{` +
			member + `:["10.0.0.1"` + strings.Repeat(`,"10.0.0.2"`, maxEndpoints) + `]}}]}`
		_, err := NewDecoder(kind).List(strings.NewReader(body), JSON, func(o Object) error {
			if n := len(o.Value.(*zone.Service).ClusterIPs); n != maxClusterIPs {
				t.Errorf("%v: got %d addresses", kind, n)
			}
			return nil
		})
		if err != nil {
			t.Errorf("%v: %v", kind, err)
		}
	}
}

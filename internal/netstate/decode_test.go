package netstate

import (
	"encoding/binary"
	"fmt"
	"reflect"
	"testing"

	"golang.org/x/sys/unix"
)

// message builds a message for features that the test machine's kernel may lack (multipath routes,
// RFC 5549).
func message(header []byte, attrs ...[]byte) []byte {
	for _, a := range attrs {
		header = append(header, a...)
	}
	return header
}

func attr(kind uint16, value []byte) []byte {
	b := binary.NativeEndian.AppendUint16(nil, uint16(4+len(value)))
	b = binary.NativeEndian.AppendUint16(b, kind)
	b = append(b, value...)
	return append(b, make([]byte, (4-len(b)%4)%4)...)
}

func u32(n uint32) []byte { return binary.NativeEndian.AppendUint32(nil, n) }

func routeHeader(fam family, dstLen byte, flags uint32) []byte {
	return append([]byte{byte(fam), dstLen, 0, 0, unix.RT_TABLE_MAIN, 0, 0, unix.RTN_UNICAST}, u32(flags)...)
}

func nexthop(index uint32, flags byte, attrs ...[]byte) []byte {
	b := message(append([]byte{0, 0, flags, 0}, u32(index)...), attrs...)
	binary.NativeEndian.PutUint16(b, uint16(len(b)))
	return b
}

func TestDecodeRoute(t *testing.T) {
	gateway6 := ip("2001:db8:1::1")
	viaInet6 := append(binary.NativeEndian.AppendUint16(nil, unix.AF_INET6), gateway6.AsSlice()...)
	tests := []struct {
		name string
		msg  []byte
		want route
	}{
		{
			"gateway, metric, source, large table", message(routeHeader(inet, 0, 0),
				attr(unix.RTA_TABLE, u32(51820)), attr(unix.RTA_PRIORITY, u32(100)), attr(unix.RTA_OIF, u32(2)),
				attr(unix.RTA_GATEWAY, ip("10.0.0.1").AsSlice()), attr(unix.RTA_PREFSRC, ip("10.0.0.5").AsSlice())),
			route{table: 51820, metric: 100, source: ip("10.0.0.5"), hops: []hop{via(2, "10.0.0.1")}},
		},
		{
			"RFC 5549", message(routeHeader(inet, 0, 0), attr(unix.RTA_OIF, u32(2)), attr(unix.RTA_VIA, viaInet6)),
			route{table: 254, hops: []hop{{index: 2, gateway: gateway6}}},
		},
		{
			"device only, no carrier", message(routeHeader(inet, 0, unix.RTNH_F_LINKDOWN), attr(unix.RTA_OIF, u32(4))),
			route{table: 254, hops: []hop{{index: 4, linkdown: true}}},
		},
		{
			"router advertisement, preference high", message(routeHeader(inet6, 0, 0), attr(unix.RTA_OIF, u32(2)),
				attr(unix.RTA_PRIORITY, u32(1024)), attr(unix.RTA_GATEWAY, ip("fe80::1").AsSlice()), attr(unix.RTA_PREF, []byte{1})),
			route{table: 254, metric: 1024, pref: 1, hops: []hop{via(2, "fe80::1")}},
		},
		{
			"multipath, the first dead, the second via IPv6", message(routeHeader(inet, 0, 0), attr(unix.RTA_MULTIPATH, append(
				nexthop(2, unix.RTNH_F_DEAD, attr(unix.RTA_GATEWAY, ip("10.0.0.1").AsSlice())),
				nexthop(3, 0, attr(unix.RTA_VIA, viaInet6))...))),
			route{table: 254, hops: []hop{{index: 2, gateway: ip("10.0.0.1"), dead: true}, {index: 3, gateway: gateway6}}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := decodeRoute(tt.msg)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got %+v\nwant %+v", got, tt.want)
			}
		})
	}
}

func TestIsDefault(t *testing.T) {
	change := func(at int, to byte) []byte {
		b := routeHeader(inet, 0, 0)
		b[at] = to
		return b
	}
	tests := []struct {
		name string
		msg  []byte
		want bool
	}{
		{"/0", routeHeader(inet, 0, 0), true},
		{"VPN half-default /1", routeHeader(inet, 1, 0), false},
		{"source-specific", change(2, 64), false},
		{"type of service", change(3, 0x10), false},
		{"blackhole", change(7, unix.RTN_BLACKHOLE), false},
		{"unreachable", change(7, unix.RTN_UNREACHABLE), false},
		{"TPROXY's local 0.0.0.0/0", change(7, unix.RTN_LOCAL), false},
		{"cache entry", routeHeader(inet, 0, unix.RTM_F_CLONED), false},
		{"short", []byte{2, 0, 0}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := isDefault(tt.msg); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestOnLink(t *testing.T) {
	header := func(fam family, bits, table, scope, kind byte, flags uint32) []byte {
		return append([]byte{byte(fam), bits, 0, 0, table, 0, scope, kind}, u32(flags)...)
	}
	pod := attr(unix.RTA_DST, ip("10.1.2.3").AsSlice())
	const main, link = unix.RT_TABLE_MAIN, unix.RT_SCOPE_LINK
	tests := []struct {
		name, want string
		msg        []byte
	}{
		{"pod route", "10.1.2.3/32 dev 7", message(header(inet, 32, main, link, unix.RTN_UNICAST, 0), attr(unix.RTA_OIF, u32(7)), pod)},
		{"interface route", "10.1.0.0/16", message(header(inet, 16, main, link, unix.RTN_UNICAST, 0), pod)},
		{"another table", "10.1.2.3/32", message(header(inet, 32, unix.RT_TABLE_UNSPEC, link, unix.RTN_UNICAST, 0), pod, attr(unix.RTA_TABLE, u32(1000)))},
		{"IPv6, without a scope", "2001:db8::/64", message(header(inet6, 64, main, 0, unix.RTN_UNICAST, 0), attr(unix.RTA_DST, ip("2001:db8::7").AsSlice()))},
		{"route with a gateway", "", message(header(inet, 32, main, 0, unix.RTN_UNICAST, 0), pod, attr(unix.RTA_GATEWAY, ip("10.0.0.1").AsSlice()))},
		{"IPv6 route with a gateway", "", message(header(inet6, 64, main, 0, unix.RTN_UNICAST, 0), attr(unix.RTA_DST, ip("2001:db8::7").AsSlice()), attr(unix.RTA_GATEWAY, ip("fe80::1").AsSlice()))},
		{"multipath route with gateways", "", message(header(inet6, 64, main, 0, unix.RTN_UNICAST, 0), attr(unix.RTA_DST, ip("2001:db8::7").AsSlice()), attr(unix.RTA_MULTIPATH, nil))},
		{"everywhere", "", message(header(inet, 0, main, link, unix.RTN_UNICAST, 0), pod)},
		{"this host's address", "", message(header(inet, 32, unix.RT_TABLE_LOCAL, link, unix.RTN_UNICAST, 0), pod)},
		{"nowhere", "", message(header(inet, 32, main, link, unix.RTN_BLACKHOLE, 0), pod)},
		{"a cache entry", "", message(header(inet, 32, main, link, unix.RTN_UNICAST, unix.RTM_F_CLONED), pod)},
		{"without a destination", "", header(inet, 32, main, link, unix.RTN_UNICAST, 0)},
		{"more bits than the address has", "", message(header(inet, 33, main, link, unix.RTN_UNICAST, 0), pod)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d, ok := onLink(tt.msg)
			got := ""
			if ok {
				got = d.Network.String()
			}
			if d.Index != 0 {
				got += fmt.Sprint(" dev ", d.Index)
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// FuzzDecode: no message makes a decoder panic, or produces an interface or a gateway that it does
// not contain.
func FuzzDecode(f *testing.F) {
	f.Add(message(routeHeader(inet, 0, 0), attr(unix.RTA_MULTIPATH, nexthop(2, 0, attr(unix.RTA_GATEWAY, []byte{10, 0, 0, 1})))))
	f.Add(message(routeHeader(inet6, 0, 0), attr(unix.RTA_OIF, u32(2)), attr(unix.RTA_PREF, nil), attr(unix.RTA_VIA, []byte{1})))
	f.Add(message(make([]byte, unix.SizeofIfAddrmsg), attr(unix.IFA_LOCAL, []byte{10, 0, 0, 1}), attr(unix.IFA_FLAGS, []byte{1})))
	f.Add(message(make([]byte, unix.SizeofIfInfomsg), attr(unix.IFLA_IFNAME, []byte("eth0"))))
	f.Fuzz(func(t *testing.T, msg []byte) {
		if _, _, err := decodeLink(msg); err == nil && len(msg) < unix.SizeofIfInfomsg {
			t.Error("got a link from a short message")
		}
		if a, err := decodeAddress(msg); err == nil && !a.ip.IsValid() {
			t.Error("got an address from a message without one")
		}
		if _, err := decodeRule(msg); err == nil && len(msg) < unix.SizeofRtMsg {
			t.Error("got a rule from a short message")
		}
		isDefault(msg)
		if d, ok := onLink(msg); ok && (!d.Network.IsValid() || d.Network.Bits() == 0 || isDefault(msg)) {
			t.Errorf("got %v as an on-link network", d.Network)
		}
		if r, err := decodeRoute(msg); err == nil && len(r.hops) > len(msg)/unix.SizeofRtNexthop {
			t.Errorf("got %d next hops from %d octets", len(r.hops), len(msg))
		}
	})
}

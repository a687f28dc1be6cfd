package dbusconn

import (
	"errors"
	"strings"
	"testing"
)

func TestSocketNames(t *testing.T) {
	tests := []struct {
		name, address, want string // want is "" for an error
	}{
		{"the well-known ones", "", "/run/dbus/system_bus_socket /var/run/dbus/system_bus_socket"},
		{"path", "unix:path=/tmp/bus", "/tmp/bus"},
		{"path with more", "unix:guid=1,path=/tmp/bus,x", "/tmp/bus"},
		{"escaped", "unix:path=/tmp/a%2cb", "/tmp/a,b"},
		{"abstract", "unix:abstract=bus", "@bus"},
		{"several", "tcp:host=h,port=1;unix:path=/a;unix:path=/b", "/a /b"},
		{"another transport", "tcp:host=localhost,port=1", ""},
		{"no key", "unix:", ""},
		{"wrong escape", "unix:path=/tmp/%zz", ""},
		{"nonsense", "x", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			names, err := socketNames(tt.address)
			if strings.Join(names, " ") != tt.want || (tt.want == "") != errors.Is(err, ErrNoBus) {
				t.Errorf("got %q, %v", names, err)
			}
		})
	}
}

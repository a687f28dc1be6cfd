package dbusapi

import (
	_ "embed"
	"fmt"
	"strings"
)

// dnsmasqXML describes what dnsmasq 2.90's introspection does, and the signal Up, which that leaves out.
//
//go:embed dnsmasq.xml
var dnsmasqXML string

//go:embed manager.xml
var managerXML string

const introspectHead = `<!DOCTYPE node PUBLIC "-//freedesktop//DTD D-BUS Object Introspection 1.0//EN"
"http://www.freedesktop.org/standards/dbus/1.0/introspect.dtd">
`

// introspect describes the object at path: one of the two, or a node on the way to them.
func introspect(path string) string {
	switch path {
	case dnsmasqPath:
		return dnsmasqXML
	case managerPath:
		return managerXML
	}
	children := ""
	for _, object := range []string{dnsmasqPath, managerPath} {
		if below, ok := strings.CutPrefix(object, strings.TrimSuffix(path, "/")+"/"); ok {
			name, _, _ := strings.Cut(below, "/")
			children += fmt.Sprintf("  <node name=%q/>\n", name)
		}
	}
	return introspectHead + "<node>\n" + children + "</node>\n"
}

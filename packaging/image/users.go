package main

import (
	"fmt"
	"slices"
	"strings"
)

// users are the contents of /etc/passwd and /etc/group.
type users struct{ passwd, group string }

// parseSysusers returns root, and the users and groups of a file in the format of sysusers.d(5).
// They get IDs from nodeDNS on, in the order of the file.
func parseSysusers(text string) (users, error) {
	u := users{passwd: "root:x:0:0:root:/root:/sbin/nologin\n", group: "root:x:0:\n"}
	next := nodeDNS
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		before, rest, quoted := strings.Cut(line, `"`)
		comment, after, closed := strings.Cut(rest, `"`)
		fields := slices.Concat(strings.Fields(before), strings.Fields(after))
		if quoted != closed || len(fields) < 3 || fields[2] != "-" {
			return users{}, fmt.Errorf(`expected TYPE NAME - ["COMMENT" HOME SHELL], got %q`, line)
		}
		name := fields[1]
		switch {
		case fields[0] == "u" && quoted && len(fields) == 5 && fields[4] == "-":
			u.passwd += fmt.Sprintf("%s:x:%d:%d:%s:%s:/sbin/nologin\n", name, next, next, comment, fields[3])
		case fields[0] == "g":
		default:
			return users{}, fmt.Errorf(`expected u NAME - "COMMENT" HOME - or g NAME -, got %q`, line)
		}
		u.group += fmt.Sprintf("%s:x:%d:\n", name, next)
		next++
	}
	if !strings.Contains(u.passwd, fmt.Sprintf("\nnode-dns:x:%d:", nodeDNS)) {
		return users{}, fmt.Errorf("expected the user node-dns first, got %q", u.passwd)
	}
	return u, nil
}

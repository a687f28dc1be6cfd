package doctor

import (
	"fmt"
	"slices"
	"strings"

	"github.com/node-dns/node-dns/internal/admin/control"
)

// daemonGroup is the daemon's own group. Its members had the rights of control.AdminGroup before that existed.
const daemonGroup = "node-dns"

// checkGroup finds members of the daemon's group who would have to be in control.AdminGroup.
func checkGroup(s Snapshot) []Finding {
	admins := members(s.Groups.Data, control.AdminGroup)
	var found []Finding
	for _, user := range members(s.Groups.Data, daemonGroup) {
		what := fmt.Sprintf("%s is in the group %s, which gives no right to ask the daemon any more", user, daemonGroup)
		fix := fmt.Sprintf("gpasswd -d %s %s", user, daemonGroup)
		if !slices.Contains(admins, user) {
			fix = fmt.Sprintf("gpasswd -a %s %s && %s; it counts from the next login on", user, control.AdminGroup, fix)
		}
		found = append(found, warn(what, fix))
	}
	return found
}

// members are the users that group(5) lists in a group.
func members(file []byte, group string) []string {
	for line := range strings.Lines(string(file)) {
		fields := strings.Split(strings.TrimSpace(line), ":")
		if len(fields) == 4 && fields[0] == group {
			return slices.DeleteFunc(strings.Split(fields[3], ","), func(user string) bool { return user == "" || user == daemonGroup })
		}
	}
	return nil
}

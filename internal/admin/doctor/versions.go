package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
)

// The oldest that node-dns is made for: RHEL 8.10's kernel and systemd, and, of NetworkManager, what the package recommends.
var (
	oldestKernel         = []int{4, 18}
	oldestSystemd        = []int{239}
	oldestNetworkManager = []int{1, 20}
)

// checkVersions judges whether the parts belong together, and to this system.
func checkVersions(s Snapshot) []Finding {
	var found []Finding
	if s.Status != nil && s.Status.Version != s.Program.Version {
		found = append(found, warn(fmt.Sprintf("the daemon that runs is %s, this program %s", s.Status.Version, s.Program.Version), "systemctl restart node-dns takes the installed one; no query is lost"))
	} else if s.Replaced {
		found = append(found, warn("the daemon runs a program that has been replaced since it was started", "systemctl restart node-dns takes the installed one; no query is lost"))
	}
	switch h := s.Hook; {
	case errors.Is(h.Err, fs.ErrNotExist):
		found = append(found, warn(h.Path+" is not installed: it is what writes the host's files", "install the package node-dns"))
	case h.Err != nil:
		found = append(found, warn(fmt.Sprintf("%s cannot be read: %v", h.Path, h.Err), "install the package node-dns again"))
	case s.Program.Commit != "" && h.Commit != "" && s.Program.Commit != h.Commit:
		found = append(found, warn(fmt.Sprintf("%s is of another build (commit %.12s) than this program (%.12s)", h.Path, h.Commit, s.Program.Commit), "install the package node-dns again"))
	}
	for _, v := range []struct {
		what, have string
		oldest     []int
	}{
		{"the kernel", s.Kernel, oldestKernel},
		{"systemd", s.Systemd, oldestSystemd},
		{"NetworkManager", s.networkManager(), oldestNetworkManager},
	} {
		if v.have != "" && older(v.have, v.oldest) {
			found = append(found, warn(fmt.Sprintf("%s is %s, and node-dns is made for %s or later", v.what, v.have, dotted(v.oldest)), "update the system"))
		}
	}
	return orFine(found, "%s", s.versionWords())
}

func (s Snapshot) networkManager() string {
	if s.Host.State.NetworkManager == nil {
		return ""
	}
	return s.Host.State.NetworkManager.Version
}

func (s Snapshot) versionWords() string {
	words := []string{"node-dns " + s.Program.Version}
	if s.Kernel != "" {
		words = append(words, "kernel "+s.Kernel)
	}
	if s.Systemd != "" {
		words = append(words, "systemd "+s.Systemd)
	}
	if v := s.networkManager(); v != "" {
		words = append(words, "NetworkManager "+v)
	}
	return "versions: " + strings.Join(words, ", ")
}

// older compares the leading numbers of a version; one that begins with none is not older.
func older(have string, oldest []int) bool {
	numbers := strings.FieldsFunc(have, func(r rune) bool { return r < '0' || r > '9' })
	for i, want := range oldest {
		if i >= len(numbers) {
			return false
		}
		n, err := strconv.Atoi(numbers[i])
		if err != nil || n != want {
			return err == nil && n < want
		}
	}
	return false
}

func dotted(numbers []int) string {
	var words []string
	for _, n := range numbers {
		words = append(words, strconv.Itoa(n))
	}
	return strings.Join(words, ".")
}

// checkAddress judges whether this node has the address that its names are asked at.
func checkAddress(s Snapshot) []Finding {
	state := s.Host.State
	if state.NetErr != nil {
		return []Finding{warn("the kernel was not asked for its addresses: "+state.NetErr.Error(), "")}
	}
	if given := state.Config.NodeIP; given.IsValid() && !state.Net.IsLocal(given) {
		return []Finding{fail(given.String()+", the node's address by its configuration, is on no interface", "ip address shows those that there are; "+state.Config.Where("nodeIP", "kubeletArguments.node-ip")+" says otherwise")}
	}
	placement := state.Placement()
	var found []Finding
	for _, problem := range placement.Problems {
		found = append(found, fail(problem, "bring the interface up; or set nodeIP: or listen: in /etc/node-dns/node-dns.yaml"))
	}
	return orFine(found, "this node's address %s is on an interface", placement.Nameserver)
}

// checkLook says what could not be looked at.
func checkLook(s Snapshot) []Finding {
	if len(s.Unseen) == 0 {
		return nil
	}
	fix := ""
	if !s.Host.Root {
		fix = "run this as root"
	}
	return []Finding{warn("not all could be looked at", fix, oneLine(s.Unseen)...)}
}

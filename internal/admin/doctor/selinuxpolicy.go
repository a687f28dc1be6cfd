package doctor

import (
	"os"
	"path/filepath"
	"strings"
)

// SELinuxConfig is the content of /etc/selinux/config, which takes effect at the next boot.
type SELinuxConfig struct {
	Mode   string // SELINUX=; "" without the file
	Policy string // SELINUXTYPE=, such as "targeted"
}

// readSELinuxConfig reads that file. If the file is missing, it returns an empty SELinuxConfig.
func readSELinuxConfig(root string) SELinuxConfig {
	text, err := os.ReadFile(filepath.Join(root, "/etc/selinux/config"))
	if err != nil {
		return SELinuxConfig{}
	}
	var c SELinuxConfig
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch strings.TrimSpace(key) {
		case "SELINUX":
			c.Mode = strings.ToLower(strings.TrimSpace(value))
		case "SELINUXTYPE":
			c.Policy = strings.TrimSpace(value)
		}
	}
	return c
}

// hasSELinux reports whether the running kernel has SELinux and its command line does not disable
// it (selinux=0).
func hasSELinux(root string) bool {
	text, err := os.ReadFile(filepath.Join(root, "/proc/filesystems"))
	return err == nil && strings.Contains(string(text), "\tselinuxfs\n")
}

// stores lists the directories where libsemanage keeps modules (store-root in semanage.conf(5)).
// rpm-ostree moves the store to /etc to make it part of the image (coreos/rpm-ostree#1105).
var stores = []string{"/var/lib/selinux", "/etc/selinux"}

// hasModule reports whether a policy module is installed and enabled at any priority (semodule(8)).
// Only root can see that.
func hasModule(root string, policy, module string) bool {
	for _, store := range stores {
		modules := filepath.Join(root, store, policy, "active/modules")
		found, err := filepath.Glob(filepath.Join(modules, "[0-9]*", module))
		_, disabled := os.Stat(filepath.Join(modules, "disabled", module))
		if err == nil && len(found) > 0 && disabled != nil {
			return true
		}
	}
	return false
}

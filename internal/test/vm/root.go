package vm

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/node-dns/node-dns/internal/test/lab"
)

// Suite is a Debian release.
type Suite string

const (
	Bookworm Suite = "bookworm" // systemd 252 and NetworkManager 1.42, the same series as RHEL 9
	Trixie   Suite = "trixie"   // systemd 257 and NetworkManager 1.52, the same series as RHEL 10
	Bullseye Suite = "bullseye" // systemd 247 and NetworkManager 1.30, the closest to RHEL 8
)

// packages are installed in every guest, without recommended packages.
var packages = []string{
	"systemd", "systemd-sysv", "dbus", "udev", "kmod", "network-manager", "linux-image-amd64", "initramfs-tools",
	"policycoreutils", "policycoreutils-python-utils", "selinux-utils", "semodule-utils", "selinux-policy-default", "auditd", "polkitd",
	"iproute2", "iputils-ping", "dnsmasq-base", "bind9-dnsutils", "rpm", "procps", "nftables", "firewalld", "netbase", "ca-certificates",
}

//go:embed guest.sh
var guestScript []byte

// Root returns the directory of a guest's root file system. The first call builds it, which
// downloads about 300 MB.
func Root(suite Suite) (string, error) {
	suite = cmp.Or(suite, Bookworm)
	list := slices.Clone(packages)
	if suite == Bullseye {
		list[slices.Index(list, "polkitd")] = "policykit-1"
	}
	return lab.Debian(string(suite), list, fmt.Sprintf("%x", sha256.Sum256(guestScript)), prepare)
}

// prepare makes a new tree bootable as a guest with the agent.
func prepare(tree string) error {
	cmd := exec.Command("sh", "-eu", "-s", tree)
	cmd.Stdin = bytes.NewReader(guestScript)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("preparing the guest's root: %w\n%s", err, out)
	}
	return nil
}

// xz is the first bytes of a file that xz(1) has compressed, and elf those of a program.
var (
	xz  = []byte("\xfd7zXZ\x00")
	elf = []byte("\x7fELF")
)

// unpackedKernel returns the path of the program in the kernel image vmlinuz-VERSION. The emulator
// starts it as it is, if it is built with PVH. To unpack it, the guest would take three seconds of
// CPU time at each boot. Of another kernel, or one that xz(1) has not compressed, it is the image.
func unpackedKernel(image string) (string, error) {
	dir, err := lab.Cached("vm kernel "+image, func(dir string) error {
		data, err := os.ReadFile(image)
		if err != nil {
			return err
		}
		config, err := os.ReadFile(strings.Replace(image, "/vmlinuz-", "/config-", 1))
		if err != nil {
			return err
		}
		if _, after, ok := bytes.Cut(data, xz); ok && bytes.Contains(config, []byte("\nCONFIG_PVH=y\n")) {
			cmd := exec.Command("xz", "--decompress", "--single-stream", "--stdout")
			cmd.Stdin = io.MultiReader(bytes.NewReader(xz), bytes.NewReader(after))
			if out, err := cmd.Output(); err == nil && bytes.HasPrefix(out, elf) {
				data = out
			}
		}
		return os.WriteFile(filepath.Join(dir, "kernel"), data, 0o644)
	})
	return filepath.Join(dir, "kernel"), err
}

// image returns the path of a disk image of the guest, labeled by the policy. Machines boot copies
// of it.
func image(c Config) (string, error) {
	root, err := Root(c.Suite)
	if err != nil {
		return "", err
	}
	key := sha256.New()
	fmt.Fprintln(key, root, c.Policy, len(c.Module))
	key.Write(c.Module)
	if c.Policy != "" {
		policy, err := readPolicy(c.Policy)
		if err != nil {
			return "", err
		}
		key.Write(policy)
	}
	dir, err := lab.Cached(fmt.Sprintf("vm image %x", key.Sum(nil)), func(dir string) error {
		tree := filepath.Join(dir, "tree")
		return errors.Join(fillImage(filepath.Join(dir, "disk"), tree, root, c), os.RemoveAll(tree))
	})
	return filepath.Join(dir, "disk"), err
}

// policyArchive is the file in a policy directory that is unpacked over the root. A directory
// without it is itself such a root, for example that of a RHEL host.
const policyArchive = "root.tar.xz"

// readPolicy returns data that identifies the policy.
func readPolicy(dir string) ([]byte, error) {
	data, err := os.ReadFile(filepath.Join(dir, policyArchive))
	if !errors.Is(err, fs.ErrNotExist) {
		return data, err
	}
	files, err := filepath.Glob(filepath.Join(dir, "etc/selinux/targeted/policy/policy.*"))
	if err != nil || len(files) != 1 {
		return nil, fmt.Errorf("%s has neither %s nor one etc/selinux/targeted/policy/policy.*", dir, policyArchive)
	}
	return os.ReadFile(files[0])
}

// unpackPolicy installs a policy in the guest's root.
func unpackPolicy(tree, dir string) error {
	archive := filepath.Join(dir, policyArchive)
	if _, err := os.Stat(archive); err == nil {
		return run("tar", "-C", tree, "-xJf", archive)
	}
	for _, sub := range []string{"etc/selinux", "var/lib/selinux"} {
		if err := run("cp", "-a", filepath.Join(dir, sub, "targeted"), filepath.Join(tree, sub)); err != nil {
			return err
		}
	}
	return nil
}

func fillImage(disk, tree, root string, c Config) error {
	if err := run("cp", "-a", root, tree); err != nil {
		return err
	}
	name, version := c.policyName(), "33"
	if c.Policy != "" {
		if err := unpackPolicy(tree, c.Policy); err != nil {
			return err
		}
	}
	config := "SELINUX=enforcing\nSELINUXTYPE=" + name + "\n"
	if err := os.WriteFile(filepath.Join(tree, "etc/selinux/config"), []byte(config), 0o644); err != nil {
		return err
	}
	if len(c.Module) > 0 {
		if err := loadModule(tree, name, version, c.Module); err != nil {
			return err
		}
	}
	contexts := filepath.Join(tree, "etc/selinux", name, "contexts/files/file_contexts")
	if c.Policy != "" {
		if err := os.WriteFile(contexts+".local", []byte(otherPaths), 0o644); err != nil {
			return err
		}
	}
	if err := run("setfiles", "-r", tree, "-F", contexts, tree); err != nil {
		return err
	}
	if err := run("truncate", "-s", "3G", disk); err != nil {
		return err
	}
	return run("mkfs.ext4", "-q", "-F", "-d", tree, disk)
}

// otherPaths labels files whose path differs between Debian and RHEL.
const otherPaths = "/usr/lib/NetworkManager/nm-dispatcher -- system_u:object_r:NetworkManager_dispatcher_exec_t:s0\n"

// ModuleName is the name of node-dns's policy module.
const ModuleName = "node_dns"

// loadModule does on the host what takes semodule -i minutes in the guest.
func loadModule(tree, name, version string, module []byte) error {
	work, err := os.MkdirTemp("", "node-dns-module-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	file := filepath.Join(work, ModuleName+".cil")
	if err := os.WriteFile(file, module, 0o644); err != nil {
		return err
	}
	config := filepath.Join(work, "semanage.conf")
	text := "module-store = direct\nexpand-check = 0\npolicy-version = " + version + "\n"
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		return err
	}
	// libsemanage reads its configuration only from this path, even with -p.
	return run("unshare", "-m", "sh", "-euc", `
mkdir -p /etc/selinux; [ -e /etc/selinux/semanage.conf ] || : >/etc/selinux/semanage.conf
mount --bind "$1" /etc/selinux/semanage.conf
semodule -p "$2" -s "$3" -X 200 -n -i "$4"`, "sh", config, tree, name, file)
}

func run(argv ...string) error {
	out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("running %s: %w\n%s", argv[0], err, out)
	}
	return nil
}

package hostdns

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/node-dns/node-dns/internal/resolvconf"
	"github.com/node-dns/node-dns/internal/sys/procfs"
)

// kubeletConfigs are the files and directories that may set a kubelet's resolvConf, in its
// configuration or its flags. /var/lib/kubelet as a whole is left out, because it holds the pods'
// volumes.
var kubeletConfigs = []string{
	"/var/lib/kubelet/config.yaml", "/var/lib/kubelet/config.yaml.d", "/var/lib/kubelet/kubeadm-flags.env",
	"/etc/kubernetes/kubelet.conf", "/etc/kubernetes/kubelet.conf.d", "/etc/kubernetes/kubelet", // OpenShift 4, kubeadm, EKS
	"/etc/kubernetes/kubelet.env", "/etc/kubernetes/kubelet-config.yaml", // kubespray
	"/etc/origin/node/node-config.yaml", "/etc/origin/node/bootstrap-node-config.yaml", "/etc/sysconfig/origin-node",
	"/etc/sysconfig/kubelet", "/etc/default/kubelet",
	"/etc/systemd/system/kubelet.service", "/etc/systemd/system/kubelet.service.d",
	"/usr/lib/systemd/system/kubelet.service", "/usr/lib/systemd/system/kubelet.service.d",
	"/etc/rancher", "/var/lib/rancher/k3s/agent/etc", "/var/lib/rancher/rke2/agent/etc",
	"/etc/microshift", "/var/snap/microk8s/current/args", "/var/lib/k0s/kubelet-config.yaml",
}

// kubeletPrograms are the names of processes that are or embed a kubelet (proc_pid_comm(5)).
var kubeletPrograms = []string{"kubelet", "hyperkube", "openshift", "k3s-server", "k3s-agent", "microshift", "kubelite"}

// maxKubeletFiles bounds the files and directories that are read below one path. Any user may run
// "kubelet --config-dir=/".
const maxKubeletFiles = 1000

// kubeletNaming says which kubelet's configuration or command line contains path, or cannot be
// read. It returns "" if there is none. A false alarm is better than a miss: a kubelet that reads
// path starts no pods without it.
func (p Paths) kubeletNaming(path string) (why string) {
	for _, config := range kubeletConfigs {
		if why := p.textNaming(config, path); why != "" {
			return why
		}
	}
	for _, name := range kubeletPrograms {
		for _, process := range procfs.Named(p.Root, name) {
			if strings.Contains(strings.Join(process.Args, " "), path) {
				return fmt.Sprintf("the command line of %s, pid %d, names it", name, process.PID)
			}
			for _, config := range append(process.Values("--config"), process.Values("--config-dir")...) {
				if !filepath.IsAbs(config) {
					config = filepath.Join(process.Dir(), config)
				}
				if process.HasOther(config) {
					return fmt.Sprintf("%s, pid %d, reads its own %s in another root directory", name, process.PID, config)
				}
				if why := p.textNaming(config, path); why != "" {
					return why
				}
			}
		}
	}
	return ""
}

// textNaming is kubeletNaming for one file, or for all files in a directory. Any user may supply
// the path: see ReadNamed.
func (p Paths) textNaming(config, path string) (why string) {
	seen := 0
	err := filepath.WalkDir(filepath.Join(p.Root, config), func(file string, entry fs.DirEntry, err error) error {
		seen++
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case seen > maxKubeletFiles:
			return fmt.Errorf("more than %d files", maxKubeletFiles)
		case entry.IsDir():
			return nil
		}
		f := ReadNamed(p.Root, file)
		if bytes.Contains(f.Data, []byte(path)) {
			why = p.host(file) + " names it"
			return fs.SkipAll
		}
		return f.Err
	})
	if err != nil {
		return fmt.Sprintf("cannot read %s: %v", config, err)
	}
	return why
}

// ForPods returns the files that a kubelet can pass to pods: the original nameservers, which the
// hook writes, and systemd-resolved's own file. A path is "" if the file does not exist, or if it
// names this node although pods could query its upstreams directly.
func (s *State) ForPods() (originals, uplinks string) {
	usual := NewPaths("")
	if s.NamesNode() || s.namesOthers(s.NodeResolvConf) {
		originals = usual.NodeResolvConf
	}
	if s.namesOthers(s.ResolvedUplinks) {
		uplinks = usual.ResolvedUplinks
	}
	return originals, uplinks
}

// WritesForPods reports whether the plan writes the node resolv.conf. Without an upstream it does
// not.
func (p Plan) WritesForPods() bool {
	return slices.ContainsFunc(p.Capture, func(step Step) bool { return step.Path == p.Paths.NodeResolvConf })
}

// namesOthers reports whether a resolv.conf names nameservers, and none of them is this node.
func (s *State) namesOthers(f File) bool {
	addrs := resolvconf.Parse(f.Data).Nameservers()
	return len(addrs) > 0 && !slices.ContainsFunc(addrs, s.Net.IsLocal)
}

package migrate

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/node-dns/node-dns/internal/hostdns"
	"github.com/node-dns/node-dns/internal/nodeconfig"
	"github.com/node-dns/node-dns/internal/resolvconf"
	"github.com/node-dns/node-dns/internal/sys/atomicfile"
	"github.com/node-dns/node-dns/internal/sys/procfs"
)

const (
	nodeConfigFile = "/etc/origin/node/node-config.yaml"
	kubeletFile    = "/var/lib/kubelet/config.yaml"
	kubeletDropIn  = "99-node-dns.conf" // the last drop-in wins
)

// Kubelet is where to set the kubelet's resolvConf if an admin requests it. With the zero Kubelet
// it stays unchanged.
type Kubelet struct {
	Wanted bool
	Path   string       // path of the file; if empty, Refused holds the reason
	File   hostdns.File // current content
	Now    string       // current resolvConf; empty if it is the default or unknown
	// Refused is the reason why it cannot be set from here.
	Refused string
}

// LookAtKubelet finds the file that sets resolvConf for a kubelet below root: that of the running
// kubelet, or the usual one.
func (h Host) LookAtKubelet(root string) Kubelet {
	k := Kubelet{Wanted: true, Now: h.State.Config.KubeletResolvConf}
	p, runs := procfs.Host(root, "kubelet")
	switch {
	case h.State.Config.IsOpenShift: // OpenShift's node process generates the command line
		k.Path = nodeConfigFile
	case runs:
		k.lookAt(root, p)
	default:
		k.Path = kubeletFile
	}
	if k.Path != "" {
		k.File = hostdns.ReadFile(root, filepath.Join(root, k.Path))
	}
	return k
}

func (k *Kubelet) lookAt(root string, p procfs.Process) {
	flags, files := nodeconfig.KubeletFlagsOf(p), nodeconfig.KubeletFilesOf(root, p)
	told := nodeconfig.KubeletToldBy(p.PID, flags, files, files.Load())
	k.Now = told.ResolvConf
	switch {
	case flags.ResolvConf != nil:
		k.Refused = "its command line has " + nodeconfig.FlagResolvConf + ", which overrides files: change it there"
	case files.DropIns != "":
		k.Path = filepath.Join(files.DropIns, kubeletDropIn)
	case files.Config != "":
		k.Path = files.Config
	default:
		k.Refused = "it was started without " + nodeconfig.FlagConfig + ": start it with " + nodeconfig.FlagResolvConf + "=" + nodeResolvConf
	}
}

var nodeResolvConf = hostdns.NewPaths("").NodeResolvConf

var (
	kubeletGives = "the kubelet gives pods " + nodeResolvConf // text in the What of its step
	stillRead    = "a kubelet that was started after the migration still reads " + nodeResolvConf + ", so that file is kept: restart the kubelet before you remove it"
)

// keptLine marks a node resolv.conf that an undo left in place. Because the hook did not write this
// line, removing node-dns keeps the file.
const keptLine = "# kept by node-dns migrate --undo for a kubelet that was started before that: restart the kubelet before you remove this file"

// setsKubelet reports whether the step that points the kubelet to the node resolv.conf was done or
// started.
func (j Journal) setsKubelet() bool {
	return slices.ContainsFunc(j.Steps[:min(j.Done+1, len(j.Steps))], func(s Step) bool {
		return s.Kind == WriteFile && strings.HasSuffix(s.What, kubeletGives)
	})
}

// keepForKubelet marks the node resolv.conf as one that stays. The kubelet reads the file for each
// pod and cannot start a pod without it.
func (a Applier) keepForKubelet() error {
	path := filepath.Join(a.base(), nodeResolvConf)
	was := hostdns.ReadFile(a.base(), path)
	file := resolvconf.Parse(was.Data)
	if !was.Exists || was.Link != "" || was.Err != nil || file.HasLine(keptLine) {
		return was.Err
	}
	file.PrependLine(keptLine)
	_, err := atomicfile.Writer{}.Write(path, file.Bytes(), was.Mode)
	return err
}

// kubeletResolv points the kubelet to the node resolv.conf. It does not restart the kubelet; that
// is up to an admin.
func kubeletResolv() origin {
	return origin{
		name:  "kubelet",
		files: []string{machineConfigNow},
		find: func(h Host) []Finding {
			k := h.Kubelet
			if !k.Wanted || k.Now == nodeResolvConf {
				return nil
			}
			now := k.Now
			if now == "" {
				now = libcFile + ", its default"
			}
			return []Finding{{Origin: "kubelet", What: "a kubelet whose resolvConf is " + now}}
		},
		steps: func(h Host) part {
			text, err := h.Kubelet.edited()
			if err != nil {
				return part{refused: []string{"the kubelet's resolvConf is not set to " + nodeResolvConf + ": " + err.Error()}}
			}
			return part{
				after: []Step{writeStep(h.Kubelet.Path, text, kubeletGives)},
				notes: []string{"the kubelet reads its resolvConf when it restarts, and pods get it when they restart: restart the kubelet at a suitable time"},
			}
		},
	}
}

// edited returns the file with the setting added and all other lines kept. It does not support
// every form of YAML. The result is therefore parsed and must contain the setting exactly once.
func (k Kubelet) edited() (string, error) {
	setting := "resolvConf in " + k.Path
	if k.Path == nodeConfigFile {
		setting = nodeconfig.ResolvConfSetting(true, "")
	}
	byHand := func(why string) error { return fmt.Errorf("%s: %s: set it by hand: %s", k.Path, why, setting) }
	lines := strings.Split(strings.TrimRight(string(k.File.Data), "\n"), "\n")
	switch {
	case k.Refused != "":
		return "", fmt.Errorf("%s", k.Refused)
	case k.File.Err != nil:
		return "", byHand(k.File.Err.Error())
	case filepath.Base(k.Path) == kubeletDropIn:
		return "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nresolvConf: " + nodeResolvConf + "\n", nil
	case !k.File.Exists:
		return "", byHand("it does not exist")
	case k.Path == nodeConfigFile:
		lines = withArgument(lines)
	default:
		lines = withResolvConf(lines)
	}
	text := strings.Join(lines, "\n") + "\n"
	said, err := nodeconfig.ResolvConfs([]byte(text))
	switch {
	case err != nil:
		return "", byHand("it is JSON, has several documents, or has the setting in an unsupported form: " + strings.Join(strings.Fields(err.Error()), " "))
	case !slices.Equal(said, []string{nodeResolvConf}):
		return "", byHand("it has several values, or has the setting in an unsupported form")
	}
	return text, nil
}

// withResolvConf sets resolvConf in a KubeletConfiguration.
func withResolvConf(lines []string) []string {
	const key = "resolvConf:"
	i := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, key) })
	if i < 0 {
		i, lines = len(lines), append(lines, "")
	}
	lines[i] = key + " " + nodeResolvConf
	return lines
}

// withArgument sets kubeletArguments.resolv-conf in a node-config.yaml to a list with one element.
func withArgument(lines []string) []string {
	const key, argument, item = "kubeletArguments:", "resolv-conf:", "- "
	at := slices.Index(lines, key)
	if at < 0 {
		return append(lines, key, "  "+argument, "  "+item+nodeResolvConf)
	}
	indent, last := "", "" // indent of the arguments; previous line without its indent
	for i := at + 1; i < len(lines); i++ {
		text := strings.TrimLeft(lines[i], " ")
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		before := strings.TrimSuffix(lines[i], text)
		if before == "" {
			break
		}
		if last == argument && strings.HasPrefix(text, item) {
			lines[i] = before + item + nodeResolvConf
			return lines
		}
		indent, last = cmp.Or(indent, before), text
	}
	indent = cmp.Or(indent, "  ")
	return slices.Insert(lines, at+1, indent+argument, indent+item+nodeResolvConf)
}

// k3sResolvConfs are the files that k3s and RKE2 give to their kubelets if pods cannot reach the
// host's nameservers. They contain 8.8.8.8.
var k3sResolvConfs = []string{"/var/lib/rancher/k3s/agent/etc/resolv.conf", "/var/lib/rancher/rke2/agent/etc/resolv.conf"}

// k3s reads /etc/resolv.conf only at its start. With node-dns, that file names this node.
func k3s() origin {
	return origin{
		name:  "k3s",
		files: k3sResolvConfs,
		find: func(h Host) []Finding {
			var all []Finding
			for _, path := range k3sResolvConfs {
				if f := h.Files[path]; f.Exists {
					all = append(all, Finding{
						Origin: "k3s", What: "a resolv.conf for pods that k3s or RKE2 generated (" + path + ")",
						Evidence: []string{"it names " + strings.Join(nameservers(f.Data), " ") + ", regardless of this site's nameservers"},
					})
				}
			}
			return all
		},
		steps: func(Host) part {
			return part{notes: []string{"pods with dnsPolicy Default, including CoreDNS, keep those nameservers until k3s restarts after node-dns " +
				"and finds this node's address in /etc/resolv.conf: systemctl restart k3s (k3s-agent, rke2-server, rke2-agent)"}}
		},
	}
}

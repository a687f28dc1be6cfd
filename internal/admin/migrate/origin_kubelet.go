package migrate

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/node-dns/node-dns/internal/admin/searchlist"
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

// Kubelet is where the kubelet's resolvConf is to be set, because an admin asked for it. The zero Kubelet: it is left as it is.
type Kubelet struct {
	Wanted bool
	Path   string       // of the file; "": Refused says why there is none
	File   hostdns.File // what stands there
	Now    string       // the resolvConf that it has; "": its default, or not known
	// Refused is why it cannot be set from here.
	Refused string
}

// LookAtKubelet finds the file that sets resolvConf for a kubelet below root: one of the running kubelet, or the usual one.
func (h Host) LookAtKubelet(root string) Kubelet {
	k := Kubelet{Wanted: true, Now: h.State.Config.KubeletResolvConf}
	p, runs := procfs.Host(root, "kubelet")
	switch {
	case h.State.Config.IsOpenShift: // its node process makes the command line
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
	flags, files := searchlist.FlagsOf(p), searchlist.FilesOf(root, p)
	told := searchlist.ToldBy(p.PID, flags, files, files.Load())
	k.Now = told.ResolvConf
	switch {
	case flags.ResolvConf != nil:
		k.Refused = "its command line has " + searchlist.FlagResolvConf + ", which wins over files: change it there"
	case files.DropIns != "":
		k.Path = filepath.Join(files.DropIns, kubeletDropIn)
	case files.Config != "":
		k.Path = files.Config
	default:
		k.Refused = "it was started without " + searchlist.FlagConfig + ": start it with " + searchlist.FlagResolvConf + "=" + nodeResolvConf
	}
}

var nodeResolvConf = hostdns.NewPaths("").NodeResolvConf

var (
	kubeletGives = "the kubelet gives pods " + nodeResolvConf // in the words of its step
	stillRead    = "a kubelet that was started since the migration still reads " + nodeResolvConf + ", so that file stays: restart the kubelet before you remove it"
)

// keptLine is in a node resolv.conf that an undo left. With a line that is not the hook's, erasing node-dns leaves it too.
const keptLine = "# kept by node-dns migrate --undo for a kubelet that was started before that: restart the kubelet before you remove this file"

// setsKubelet reports whether the step that points the kubelet at the node resolv.conf is done, or was begun.
func (j Journal) setsKubelet() bool {
	return slices.ContainsFunc(j.Steps[:min(j.Done+1, len(j.Steps))], func(s Step) bool {
		return s.Kind == WriteFile && strings.HasSuffix(s.What, kubeletGives)
	})
}

// keepForKubelet marks the node resolv.conf as one that stays. The kubelet reads it for each pod that it starts, and starts none without.
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

// kubeletResolv points the kubelet at the node resolv.conf. It stops no kubelet: an admin decides when one is started again.
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
				notes: []string{"the kubelet reads its resolvConf when it is started again, and pods get it when they are: restart it when that suits you"},
			}
		},
	}
}

// edited is the file with the setting in it. It keeps all other lines, and so does not follow every form of YAML: what it has made is
// parsed, and must have the setting once.
func (k Kubelet) edited() (string, error) {
	setting := "resolvConf in " + k.Path
	if k.Path == nodeConfigFile {
		setting = searchlist.ResolvConfSetting(true, "")
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
		return "", byHand("it is JSON, has several documents, or has the setting in another form: " + strings.Join(strings.Fields(err.Error()), " "))
	case !slices.Equal(said, []string{nodeResolvConf}):
		return "", byHand("it has several values, or has the setting in another form")
	}
	return text, nil
}

// withResolvConf sets resolvConf of a KubeletConfiguration.
func withResolvConf(lines []string) []string {
	const key = "resolvConf:"
	i := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, key) })
	if i < 0 {
		i, lines = len(lines), append(lines, "")
	}
	lines[i] = key + " " + nodeResolvConf
	return lines
}

// withArgument sets kubeletArguments.resolv-conf of a node-config.yaml, a list of one.
func withArgument(lines []string) []string {
	const key, argument, item = "kubeletArguments:", "resolv-conf:", "- "
	at := slices.Index(lines, key)
	if at < 0 {
		return append(lines, key, "  "+argument, "  "+item+nodeResolvConf)
	}
	indent, last := "", "" // of the arguments; the line before, without its indent
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

// k3sResolvConf is what k3s and RKE2 give their kubelet where the host's nameservers are none that a pod can ask: with 8.8.8.8 in it.
var k3sResolvConfs = []string{"/var/lib/rancher/k3s/agent/etc/resolv.conf", "/var/lib/rancher/rke2/agent/etc/resolv.conf"}

// k3s looks at /etc/resolv.conf at its start, and never again: with node-dns it finds one that names this node.
func k3s() origin {
	return origin{
		name:  "k3s",
		files: k3sResolvConfs,
		find: func(h Host) []Finding {
			var all []Finding
			for _, path := range k3sResolvConfs {
				if f := h.Files[path]; f.Exists {
					all = append(all, Finding{
						Origin: "k3s", What: "a resolv.conf for pods that k3s or RKE2 made up (" + path + ")",
						Evidence: []string{"it names " + strings.Join(nameservers(f.Data), " ") + ", whatever this site's nameservers are"},
					})
				}
			}
			return all
		},
		steps: func(Host) part {
			return part{notes: []string{"pods with dnsPolicy Default, CoreDNS among them, keep those nameservers until k3s is started again behind node-dns, " +
				"which finds this node's address in /etc/resolv.conf then: systemctl restart k3s (k3s-agent, rke2-server, rke2-agent)"}}
		},
	}
}

package migrate

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/node-dns/node-dns/internal/hostdns"
	"github.com/node-dns/node-dns/internal/procfs"
	"github.com/node-dns/node-dns/internal/searchlist"
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

// LookAtKubelet finds out where a kubelet below root would be told its resolvConf: by the files of the one that runs, or by those that
// are usual.
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
				after: []Step{writeStep(h.Kubelet.Path, text, "the kubelet gives pods "+nodeResolvConf)},
				notes: []string{"the kubelet reads its resolvConf when it is started again, and pods get it when they are: restart it when that suits you"},
			}
		},
	}
}

// edited is the file with the setting in it. It keeps all other lines, and so does not follow every form of YAML.
func (k Kubelet) edited() (string, error) {
	setting := "resolvConf in " + k.Path
	if k.Path == nodeConfigFile {
		setting = searchlist.ResolvConfSetting(true, "")
	}
	byHand := func(why string) error { return fmt.Errorf("%s: %s: set it by hand: %s", k.Path, why, setting) }
	isDropIn := filepath.Base(k.Path) == kubeletDropIn
	lines := strings.Split(strings.TrimRight(string(k.File.Data), "\n"), "\n")
	switch {
	case k.Refused != "":
		return "", fmt.Errorf("%s", k.Refused)
	case k.File.Err != nil:
		return "", byHand(k.File.Err.Error())
	case isDropIn:
		return "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nresolvConf: " + nodeResolvConf + "\n", nil
	case !k.File.Exists:
		return "", byHand("it does not exist")
	case slices.ContainsFunc(lines, func(line string) bool {
		return strings.HasPrefix(line, "{") || strings.HasPrefix(line, "---") && line != lines[0]
	}):
		return "", byHand("it is JSON, or has several documents")
	case k.Path == nodeConfigFile:
		return setArgument(lines, byHand)
	}
	i := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, "resolvConf:") })
	if i < 0 {
		i, lines = len(lines), append(lines, "")
	}
	lines[i] = "resolvConf: " + nodeResolvConf
	return strings.Join(lines, "\n") + "\n", nil
}

// setArgument sets kubeletArguments.resolv-conf, a list of one.
func setArgument(lines []string, byHand func(string) error) (string, error) {
	const key, argument = "kubeletArguments:", "resolv-conf:"
	at := slices.Index(lines, key)
	switch {
	case at < 0 && slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, key) }):
		return "", byHand(key + " is in one line")
	case at < 0:
		lines = append(lines, key, "  "+argument, "  - "+nodeResolvConf)
		return strings.Join(lines, "\n") + "\n", nil
	}
	indent := "  "
	for i := at + 1; i < len(lines) && strings.HasPrefix(lines[i], " "); i++ {
		text := strings.TrimLeft(lines[i], " ")
		if i == at+1 {
			indent = lines[i][:len(lines[i])-len(text)]
		}
		if !strings.HasPrefix(text, argument) {
			continue
		}
		if text != argument || i+1 == len(lines) || !strings.HasPrefix(strings.TrimLeft(lines[i+1], " "), "- ") {
			return "", byHand(argument + " is in one line")
		}
		before, _, _ := strings.Cut(lines[i+1], "- ")
		lines[i+1] = before + "- " + nodeResolvConf
		return strings.Join(lines, "\n") + "\n", nil
	}
	lines = slices.Insert(lines, at+1, indent+argument, indent+"- "+nodeResolvConf)
	return strings.Join(lines, "\n") + "\n", nil
}

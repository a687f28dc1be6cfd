package netns

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/node-dns/node-dns/internal/test/manpage"
)

const (
	readme          = "README.md"
	firstNode       = "docs/tutorial/first-node.md"
	troubleshooting = "docs/howto/troubleshooting.md"
	kubeletPage     = "docs/howto/kubelet.md"
	autopathPage    = "docs/howto/autopath.md"
	clusterPage     = "docs/howto/cluster.md"
	helmPage        = "docs/howto/helm.md"
	fleetPage       = "docs/howto/fleet.md"
	clusterCost     = "docs/explanation/cluster-resolver.md"
	dbusPage        = "docs/reference/dbus.md"
)

// typed are the documents whose commands TestTroubleshooting runs on a healthy node.
var typed = []string{
	readme, firstNode, troubleshooting, kubeletPage, autopathPage, clusterCost, helmPage, fleetPage,
	"docs/howto/coexistence.md",
	"docs/howto/dns-over-tls.md",
	"docs/howto/inspect.md",
	"docs/howto/monitoring.md",
	"docs/howto/split-dns.md",
	"docs/reference/doctor.md",
	"docs/reference/limits.md",
}

// withSystemd is the reason for skipping commands that these tests cannot run: their machines have
// no systemd and no journal.
const withSystemd = "test/nspawn runs it"

// withHelm is the same for commands that need Helm, or a cluster with a kubelet.
const withHelm = "there is no helm; test/chart renders the objects, and test/e2e applies them"

// elsewhere lists the commands in the documents that these tests do not run as written, and why.
var elsewhere = map[string]string{
	"make test":                      "these tests are a part of it; CI runs it",
	"make bench-kube":                "a measurement of a quarter of an hour; make test-kube starts the same servers",
	"node-dns serve":                 "does not end; the unit starts it",
	"node-dns query www.example.com": "no nameserver here knows the name; cmd/node-dns runs query in scripts",
	"go run ./cmd/node-dns demo":     "TestReadme runs it",
	"go test ./test/netns -run '^$' -bench Autopath -benchtime 5000x": "a measurement; the tests compile it",
	"node-dns monitor":                    "it does not end: cmd/node-dns runs it in a script",
	"node-dns top":                        "it takes a terminal: cmd/node-dns runs it in tmux",
	"node-dns log-queries on":             "likewise: cmd/node-dns runs it in a script",
	"node-dns explain google.com -n shop": "likewise; TestExplain runs it here",
	"chattr +i":                           "the name of an attribute, not a whole command",
	"make rpm":                            withSystemd,
	"dnf install -y ./dist/node-dns-[0-9]*.$(uname -m).rpm ./dist/node-dns-selinux-*.noarch.rpm": withSystemd,
	"dnf remove -y node-dns node-dns-selinux":                                                    withSystemd,
	"systemctl restart node-dns":                                                                 withSystemd,
	"systemctl enable --now node-dns":                                                            withSystemd,
	"systemctl disable --now node-dns":                                                           withSystemd,
	"systemctl status node-dns-apply.path":                                                       withSystemd,
	"systemctl status node-dns":                                                                  withSystemd,
	"journalctl -u node-dns-apply":                                                               withSystemd,
	"journalctl -t node-dns -t origin-dns-dispatcher -x":                                         withSystemd,
	"journalctl -t node-dns -t origin-dns-dispatcher -p warning":                                 withSystemd,
	"journalctl -u node-dns -u node-dns-apply":                                                   withSystemd,
	"journalctl -t origin-dns-dispatcher -u NetworkManager-dispatcher":                           withSystemd,
	"journalctl MESSAGE_ID=2aab54eb89a742b9a8150fed9760ab96":                                     withSystemd,
	"journalctl NODE_DNS_CONDITION=resolv-conf-restored -o verbose":                              withSystemd,
	"node-dns wait --for=ready --timeout=60s":                                                    withSystemd,
	"node-dns migrate --apply":                                                                   withSystemd,

	"make manifests": "test/chart runs it",
	"helm install node-dns charts/node-dns -n kube-system":                   withHelm,
	"helm upgrade node-dns charts/node-dns -n kube-system -f my-values.yaml": withHelm,
	"helm uninstall node-dns -n kube-system":                                 withHelm,
	"kubectl -n kube-system exec ds/node-dns -c node-dns -- node-dns status": "there is no kubelet; the command itself runs here",

	"kubectl krew install --manifest=dist/node-dns.yaml --archive=dist/kubectl-node_dns-linux-amd64.tar.gz": "there is no krew; test/krew reads the manifest and the archive",
	"kubectl apply -f contrib/fleet-role.yaml":                                                              "there is no kubectl; test/e2e applies the file",
	"kubectl create clusterrolebinding alice-node-dns --clusterrole=node-dns-fleet --user=alice":            "likewise",
	"kubectl -n kube-system create rolebinding alice-node-dns --role=node-dns-fleet --user=alice":           "likewise",
	"kubectl debug node/NODE -it --profile=sysadmin --image=busybox -- chroot /host node-dns status":        "there is no kubelet",
	"make kubectl":     "test/krew runs it",
	"kubectl node-dns": "test/e2e runs it",

	"kubectl apply -f contrib/cluster-role.yaml":                                                                                "there is no kubectl; the tests with a real API apply the file",
	"kubectl -n kube-system create serviceaccount node-dns":                                                                     "there is no kubectl",
	"kubectl -n kube-system create token node-dns --duration=8760h":                                                             "there is no kubectl",
	"kubectl create clusterrolebinding node-dns-account --clusterrole=node-dns --serviceaccount=kube-system:node-dns":           "there is no kubectl",
	"kubectl create clusterrolebinding node-dns-account-pods --clusterrole=node-dns-pods --serviceaccount=kube-system:node-dns": "there is no kubectl",
}

// TestElsewhere: each excused command is in a document.
func TestElsewhere(t *testing.T) {
	var all []string
	for _, document := range append(slices.Clone(typed), clusterPage, dbusPage) {
		all = append(all, slices.Concat(blocks(t, document)...)...)
		all = append(all, mentioned(t, document)...)
	}
	for command := range elsewhere {
		if !slices.Contains(all, command) {
			t.Errorf("no document contains %q", command)
		}
	}
}

// blocks returns the command blocks of a document.
func blocks(t *testing.T, document string) [][]string {
	t.Helper()
	return manpage.Commands(t, "../../"+document)
}

var codeSpan = regexp.MustCompile("`([^`\n]+)`")

// mentioned returns the commands in a document's sentences: two words or more, of which the first
// is one of our programs or of this machine's.
func mentioned(t *testing.T, document string) []string {
	t.Helper()
	var all []string
	for i, part := range strings.Split(readDocument(t, document), "```") {
		if i%2 == 1 {
			continue // a code block
		}
		for _, span := range codeSpan.FindAllStringSubmatch(part, -1) {
			words := strings.Fields(span[1])
			if len(words) < 2 || slices.Contains(all, span[1]) {
				continue
			}
			_, err := exec.LookPath(words[0])
			if err == nil || slices.Contains([]string{"node-dns", "origin-dns-dispatcher", "kubectl"}, words[0]) { // with or without kubectl on this machine
				all = append(all, span[1])
			}
		}
	}
	return all
}

func readDocument(t testing.TB, document string) string {
	t.Helper()
	data, err := os.ReadFile("../../" + document)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

package netns

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	readme          = "README.md"
	troubleshooting = "docs/troubleshooting.md"
	clusterPage     = "docs/cluster.md"
)

// withSystemd is why these tests do not run what they could not: there is no systemd, and no journal, in their machines.
const withSystemd = "test/nspawn runs it"

// elsewhere are the documents' commands that these tests do not run as they stand, and why.
var elsewhere = map[string]string{
	"make test":        "these tests are a part of it; CI runs it",
	"make test-kube":   "make test runs it, and builds a kube-apiserver for it",
	"make test-trixie": "it is test/nspawn, which make test runs, on another system",
	"node-dns serve":   "does not end: the install block starts it as a job",
	"go test ./test/netns -run '^$' -bench Autopath -benchtime 5000x": "a measurement; the tests compile it",
	"chattr +i":                       "the name of an attribute, not a whole command",
	"systemctl disable --now dnsmasq": "there is no systemd in these machines",

	"systemctl status node-dns-apply.path":                             withSystemd,
	"systemctl status node-dns":                                        withSystemd,
	"journalctl -u node-dns-apply":                                     withSystemd,
	"journalctl -t node-dns -t origin-dns-dispatcher -x":               withSystemd,
	"journalctl -t node-dns -t origin-dns-dispatcher -p warning":       withSystemd,
	"journalctl -u node-dns -u node-dns-apply":                         withSystemd,
	"journalctl -t origin-dns-dispatcher -u NetworkManager-dispatcher": withSystemd,
	"journalctl MESSAGE_ID=2aab54eb89a742b9a8150fed9760ab96":           withSystemd,
	"journalctl NODE_DNS_CONDITION=resolv-conf-restored -o verbose":    withSystemd,
	"node-dns wait --for=ready --timeout=60s":                          withSystemd,

	"kubectl apply -f contrib/cluster-role.yaml":                                                                                "there is no kubectl; the tests with a real API apply the file",
	"kubectl -n kube-system create serviceaccount node-dns":                                                                     "there is no kubectl",
	"kubectl -n kube-system create token node-dns --duration=8760h":                                                             "there is no kubectl",
	"kubectl create clusterrolebinding node-dns-account --clusterrole=node-dns --serviceaccount=kube-system:node-dns":           "there is no kubectl",
	"kubectl create clusterrolebinding node-dns-account-pods --clusterrole=node-dns-pods --serviceaccount=kube-system:node-dns": "there is no kubectl",
	"kubectl create clusterrolebinding node-dns-nodes-pods --clusterrole=node-dns-pods --group=system:nodes":                    "there is no kubectl",
}

// TestElsewhere: what is excused stands in a document.
func TestElsewhere(t *testing.T) {
	var all []string
	for _, document := range []string{readme, troubleshooting, clusterPage} {
		all = append(all, slices.Concat(blocks(t, document)...)...)
		all = append(all, mentioned(t, document)...)
	}
	for command := range elsewhere {
		if !slices.Contains(all, command) {
			t.Errorf("no document says %q", command)
		}
	}
}

// block is one fenced block of shell commands in a document, a command a line.
type block []string

// fence opens a block of commands; other blocks show output and have no language.
const fence = "```sh\n"

// blocks are the document's blocks of commands, in order. Comments are left out.
func blocks(t *testing.T, document string) []block {
	t.Helper()
	var all []block
	for i, part := range strings.Split(readDocument(t, document), fence) {
		text, _, closed := strings.Cut(part, "```")
		if i == 0 {
			continue
		}
		if !closed {
			t.Fatalf("%s: a block of commands does not end", document)
		}
		var b block
		for line := range strings.Lines(text) {
			command, _, _ := strings.Cut(line, " #")
			if command = strings.TrimSpace(command); command != "" && !strings.HasPrefix(command, "#") {
				b = append(b, command)
			}
		}
		all = append(all, b)
	}
	return all
}

var codeSpan = regexp.MustCompile("`([^`\n]+)`")

// mentioned are the commands that stand in the document's sentences: of two words or more, the first one of our programs or of this
// machine's.
func mentioned(t *testing.T, document string) []string {
	t.Helper()
	var all []string
	for i, part := range strings.Split(readDocument(t, document), "```") {
		if i%2 == 1 {
			continue // a block
		}
		for _, span := range codeSpan.FindAllStringSubmatch(part, -1) {
			words := strings.Fields(span[1])
			if len(words) < 2 || slices.Contains(all, span[1]) {
				continue
			}
			_, err := exec.LookPath(words[0])
			if err == nil || words[0] == "node-dns" || words[0] == "origin-dns-dispatcher" {
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

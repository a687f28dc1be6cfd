package netns

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/node-dns/node-dns/internal/test/lab"
)

// TestClusterPage runs the page's commands on a healthy node, with the page's kubeconfig and
// clusterListen.
func TestClusterPage(t *testing.T) {
	examples := yamlBlocks(t, clusterPage)
	if len(examples) != 2 {
		t.Fatalf("the page has %d blocks of YAML", len(examples))
	}
	n := bootPodNode(t, podCluster, podSite, examples[1])
	n.api.SetToken("secret")
	n.l.WriteFile("/etc/node-dns/kubeconfig", strings.Replace(examples[0], "https://192.0.2.9:6443", n.api.URL(), 1))
	n.l.WriteFile("/etc/node-dns/ca.crt", string(n.api.CA()))
	n.l.WriteFile("/etc/node-dns/token", "secret\n")
	n.start()
	n.l.Run(lab.Binary(t, "origin-dns-dispatcher"), "apply")
	n.l.Run("ln", "-s", lab.Binary(t, "node-dns"), "/usr/sbin/node-dns")
	n.lookup(lab.Binary(t, "lookup"), 1, "google.com")
	sh := newShell(t, "/")
	commands := mentioned(t, clusterPage)
	for _, b := range blocks(t, clusterPage) {
		commands = append(commands, b...)
	}
	var printed strings.Builder
	for _, command := range commands {
		if _, ok := elsewhere[command]; !ok {
			printed.WriteString(sh.run(command))
		}
	}
	shown := strings.Count(printed.String(), "\t172.30.0.1\n")
	if dig := strings.Count(strings.Join(commands, "\n"), "dig "); shown != dig || dig != 2 {
		t.Errorf("%d commands query an address, %d got it", dig, shown)
	}
	n.checkClusterScreen(printed.String())
	n.digs("the pod is no client of clusterListen", []string{"-p", "8053"}, "REFUSED", "EDE: 18 (Prohibited)")
}

// number matches what differs between machines.
var number = regexp.MustCompile(`\d+`)

// checkClusterScreen checks that the status on the page is part of the printed one, except for the
// numbers.
func (n *podNode) checkClusterScreen(printed string) {
	n.t.Helper()
	_, screen, _ := strings.Cut(readDocument(n.t, clusterPage), "```\nCluster ")
	screen, _, _ = strings.Cut(screen, "```")
	screen, printed = number.ReplaceAllString("Cluster "+screen, "0"), number.ReplaceAllString(printed, "0")
	if !strings.Contains(printed, screen) || strings.Count(screen, "\n") < 3 {
		n.t.Errorf("the page shows\n%s\nthe status is\n%s", screen, printed)
	}
}

// digs queries the kubernetes service from the pod and checks the answer.
func (n *podNode) digs(what string, options []string, wanted ...string) {
	n.t.Helper()
	var out string
	seen := func() bool {
		out, _ = n.pod.Try(slices.Concat([]string{"dig", "@" + bridgeIP, "kubernetes.default.svc.cluster.local"}, options)...)
		return !slices.ContainsFunc(wanted, func(text string) bool { return !strings.Contains(out, text) })
	}
	if !lab.Poll(20*time.Second, seen) {
		n.t.Errorf("%s: %q is not in the answer\n%s", what, wanted, out)
	}
}

// TestClusterPageReasons causes each status message in the page's table on one node, except those
// that take a minute or pass at once.
func TestClusterPageReasons(t *testing.T) {
	n := bootPodNode(t, podCluster, podSite, "kubeconfig: kubeconfig\n")
	nodeDNS := lab.Binary(t, "node-dns")
	kubeconfig := func(text string) func() {
		return func() { n.l.WriteFile("/etc/node-dns/kubeconfig", text) }
	}
	daemon := startDaemon(t, n.l)
	told := []string{"syncing", "stale"}
	const notReady, answers = "EDE: 14 (Not Ready)", "172.30.0.1"
	for _, step := range []struct {
		says      string // as on the page
		bringThis func()
		status    string // more text of the status
		dig       string
	}{
		{"no kubeconfig", func() {}, "SERVFAIL", notReady},
		{"kubeconfig unreadable", kubeconfig("users: 5"), "SERVFAIL", notReady},
		{"connecting", kubeconfig(strings.Replace(string(n.api.Kubeconfig()), n.api.URL(), "https://"+bridgeIP+":1", 1)), "SERVFAIL", notReady},
		{"forbidden", func() {
			n.api.Deny("list", "services")
			kubeconfig(string(n.api.Kubeconfig()))()
		}, "! rights are missing (contrib/cluster-role.yaml has them): list services", notReady},
		{"synced", func() { n.api.Grant("list", "services") }, "from the Kubernetes API: 4 services", answers},
		{"connecting", func() {
			daemon.Stop()
			n.api.Close()
			startDaemon(t, n.l)
		}, "STALE: 4 services", "EDE: 3 (Stale Answer)"},
	} {
		step.bringThis()
		var out string
		if !lab.Poll(20*time.Second, func() bool {
			out, _ = n.l.Try(nodeDNS, "status") // exit code 1 if it reports a problem
			return strings.Contains(out, "            "+step.says+" for ") && strings.Contains(out, step.status)
		}) {
			t.Errorf("the status does not contain %q and %q:\n%s", step.says, step.status, out)
		}
		n.digs(step.says, nil, step.dig)
		told = append(told, step.says)
	}
	slices.Sort(told)
	if diff := cmp.Diff(slices.Compact(told), saidOfTheAPI(t)); diff != "" {
		t.Errorf("the page lists\n%s", diff)
	}
}

// saidOfTheAPI returns the first column of the page's table of status messages.
func saidOfTheAPI(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, row := range tableAfter(t, clusterPage, "| state | meaning |") {
		all = append(all, strings.Trim(row[0], "`"))
	}
	slices.Sort(all)
	return all
}

// TestClusterPageCounts: the page has the numbers from TestAutopath.
func TestClusterPageCounts(t *testing.T) {
	rows := tableAfter(t, autopathPage, "| name | | without | with |")
	if len(rows) < 6 {
		t.Errorf("only %d rows were found", len(rows))
	}
	for _, row := range rows {
		i := slices.IndexFunc(lookups, func(s search) bool { return "`"+s.name+"`" == row[0] })
		if i < 0 || row[2] != strconv.Itoa(lookups[i].plain) || row[3] != strconv.Itoa(lookups[i].walked) {
			t.Errorf("TestAutopath does not check this row of the page: %q", row)
		}
	}
}

// tableAfter returns the cells of a document's table, found by the beginning of its header.
func tableAfter(t *testing.T, document, head string) [][]string {
	t.Helper()
	_, text, found := strings.Cut(readDocument(t, document), "\n"+head)
	if !found {
		t.Fatalf("%s has no table %q", document, head)
	}
	var rows [][]string
	for i, line := range strings.Split(text, "\n") {
		if i < 2 { // the rest of the header, and the separator
			continue
		}
		if !strings.HasPrefix(line, "|") {
			break
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for j := range cells {
			cells[j] = strings.TrimSpace(cells[j])
		}
		rows = append(rows, cells)
	}
	return rows
}

// yamlBlocks returns the document's YAML blocks.
func yamlBlocks(t *testing.T, document string) []string {
	t.Helper()
	var all []string
	for _, part := range strings.Split(readDocument(t, document), "```yaml\n")[1:] {
		text, _, _ := strings.Cut(part, "```")
		all = append(all, text)
	}
	return all
}

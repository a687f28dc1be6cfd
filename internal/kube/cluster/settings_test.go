package cluster

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/node-dns/node-dns/internal/test/kubetest"
)

// told records the latest Settings.
type told struct {
	mu     sync.Mutex
	latest Settings
	times  int
}

func (l *told) take(s Settings) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.latest = s
	l.times++
}

// text returns the objects' names and data, then the errors.
func (l *told) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var words []string
	for _, o := range l.latest.Objects {
		words = append(words, fmt.Sprintf("%s=%s%s", o.Name, o.Data["Corefile"], o.Spec))
	}
	for _, err := range l.latest.Failed {
		words = append(words, err.Error())
	}
	return strings.Join(words, " ")
}

func corefile(text string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {namespace: kube-system, name: coredns}\ndata: {Corefile: " + text + "}\n"
}

// ofSettings counts the requests for objects that configure DNS.
func ofSettings(all []kubetest.Request) (lists, others int) {
	for _, r := range all {
		switch isSetting := strings.HasSuffix(r.Path, "/configmaps") || strings.HasSuffix(r.Path, "/dnses"); {
		case isSetting && isWholeList(r):
			lists++
		case isSetting:
			others++
		}
	}
	return lists, others
}

// TestSettings: each change of an object is published. An object without the right to read it keeps
// its last version and is requested again every few minutes. Its failure does not affect the
// cluster's names.
func TestSettings(t *testing.T) {
	fakeTime(t, func(t *testing.T) {
		w, network := newFakeWorld(t)
		w.server.Apply(readFixture(t, "node-dns"))
		w.server.Apply(corefile("one"))
		w.server.Apply("apiVersion: v1\nkind: ConfigMap\nmetadata: {namespace: default, name: coredns}\ndata: {Corefile: another}\n")
		latest := new(told)
		w.config.Features.Settings, w.config.Settings, w.config.CompareEvery = true, latest.take, 1000*time.Hour
		wants := func(when, want string) {
			t.Helper()
			synctest.Wait()
			if got := latest.text(); got != want {
				t.Errorf("%s: %q, want %q", when, got, want)
			}
		}
		w.start()
		time.Sleep(time.Minute)
		wants("at the start", "coredns=one")
		if lists, _ := ofSettings(w.server.Requests()); lists != 4 { // all but the operator's
			t.Errorf("got %d lists at the start, want 4", lists)
		}
		w.server.Apply(corefile("two"))
		time.Sleep(time.Second)
		wants("changed", "coredns=two")

		w.server.SetOpenShift()
		w.server.Apply("apiVersion: operator.openshift.io/v1\nkind: DNS\nmetadata: {name: default}\nspec: {servers: [{name: x}]}\n")
		time.Sleep(90 * time.Minute)
		wants("the operator's", `coredns=two default={"servers":[{"name":"x"}]}`)

		asked := len(w.server.Requests())
		data, err := os.ReadFile(w.config.Kubeconfig)
		if err == nil {
			err = os.WriteFile(w.config.Kubeconfig, append(data, '\n'), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		w.server.Apply(corefile("three"))
		time.Sleep(time.Second)
		wants("after another kubeconfig", `coredns=three default={"servers":[{"name":"x"}]}`)
		if lists, others := ofSettings(w.server.Requests()[asked:]); lists > 0 || others == 0 {
			t.Errorf("after a kubeconfig change: got %d lists, %d other requests", lists, others)
		}

		w.server.SetFaults(kubetest.Faults{Status: 404})
		w.server.CloseWatches()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if got := latest.text(); !strings.HasPrefix(got, `coredns=three default={"servers":[{"name":"x"}]} ConfigMap coredns: 404 Not Found`) {
			t.Errorf("proxy that returns 404: got %q", got)
		}
		w.server.SetFaults(kubetest.Faults{})
		time.Sleep(10 * time.Minute)
		wants("without the proxy", `coredns=three default={"servers":[{"name":"x"}]}`)

		w.server.Deny("list", "configmaps")
		w.server.Deny("watch", "configmaps")
		w.server.CloseWatches()
		time.Sleep(time.Minute)
		denied := `coredns=three default={"servers":[{"name":"x"}]}`
		for _, name := range []string{"coredns", "coredns-custom", "kube-dns", "rke2-coredns-rke2-coredns"} {
			denied += " no right to watch configmaps/" + name + " in namespace kube-system"
		}
		wants("without the right", denied)
		if w.watcher.State().Phase != Synced {
			t.Errorf("without permission: got state %+v", w.watcher.State())
		}
		asked = len(w.server.Requests())
		time.Sleep(time.Hour)
		if lists, others := ofSettings(w.server.Requests()[asked:]); lists+others > 4*24+16 {
			t.Errorf("got %d requests in an hour without permission", lists+others)
		}
		w.server.Delete("ConfigMap", "kube-system", "coredns")
		w.server.Grant("list", "configmaps")
		w.server.Grant("watch", "configmaps")
		time.Sleep(10 * time.Minute)
		wants("with the right again", `default={"servers":[{"name":"x"}]}`)

		w.server.Apply(corefile("four"))
		time.Sleep(time.Second)
		w.stop()
		w.config.KnownSettings = Settings{Objects: latest.latest.Objects, Cluster: latest.latest.Cluster}
		network.SetDown(true)
		before := latest.times
		w.start()
		time.Sleep(time.Hour)
		if latest.times != before {
			t.Errorf("server down: got %q", latest.text())
		}
		w.server.Apply(corefile("five"))
		network.SetDown(false)
		time.Sleep(time.Minute)
		wants("after the restart", `coredns=five default={"servers":[{"name":"x"}]}`)

		w.stop()
		w.config.KnownSettings = Settings{Objects: latest.latest.Objects, Cluster: "another"}
		w.server.Deny("list", "configmaps")
		w.server.Deny("watch", "configmaps")
		w.start()
		time.Sleep(time.Minute)
		wants("another cluster, without the right", strings.ReplaceAll(denied[len("coredns=three "):], "to watch", "to list"))
		w.server.Grant("list", "configmaps")
		w.server.Grant("watch", "configmaps")
		time.Sleep(10 * time.Minute)
		wants("another cluster", `coredns=five default={"servers":[{"name":"x"}]}`)
		if latest.latest.Cluster == "another" || latest.latest.Cluster == "" {
			t.Errorf("got cluster %q", latest.latest.Cluster)
		}
	})
}

// TestSettingsRights: rights are requested by object name, as RBAC grants them, and the operator's
// right only where its API exists.
func TestSettingsRights(t *testing.T) {
	w := newWorld(t)
	w.config.Features.Settings = true
	w.server.Deny("watch", "configmaps")
	w.server.Deny("list", "dnses")
	rights := func() string {
		missing, err := MissingRights(t.Context(), w.config)
		if err != nil {
			t.Fatal(err)
		}
		var words []string
		for _, r := range missing {
			words = append(words, r.String())
		}
		return strings.Join(words, ", ")
	}
	const maps = "watch configmaps/coredns in namespace kube-system, watch configmaps/coredns-custom in namespace kube-system, " +
		"watch configmaps/kube-dns in namespace kube-system, watch configmaps/rke2-coredns-rke2-coredns in namespace kube-system"
	if got := rights(); got != maps {
		t.Errorf("on Kubernetes: got %q", got)
	}
	w.server.SetOpenShift()
	if got := rights(); got != maps+", list dnses.operator.openshift.io/default" {
		t.Errorf("on OpenShift: got %q", got)
	}
}

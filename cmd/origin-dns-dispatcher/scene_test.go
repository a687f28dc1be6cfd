package main_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/node-dns/node-dns/internal/test/lab"
)

const (
	resolvConf     = "/etc/resolv.conf"
	upstreamsFile  = "/etc/dnsmasq.d/origin-upstream-dns.conf"
	nodeResolvConf = "/etc/origin/node/resolv.conf"
	originalFile   = "/var/lib/node-dns/resolv.conf.orig"
	recordFile     = "/var/lib/node-dns/upstreams.json"
	factsFile      = "/var/lib/node-dns/node-config.json"
	nodeConfig     = "/etc/origin/node/node-config.yaml"
)

var written = []string{resolvConf, upstreamsFile, nodeResolvConf, originalFile, recordFile, factsFile}

// scene is a machine that one run of the dispatcher changes.
type scene struct {
	Name  string
	Files map[string]beforeFile
	Argv  []string
	Env   []string
	Bind  bool // resolv.conf is a bind mount, as in a container, so no rename can replace it
	Alone bool // there is no local nameserver

	program string
	log     string // output of the last run
}

// stage creates the network and starts the local nameserver.
func (s *scene) stage(t *testing.T, l *lab.Lab) {
	t.Helper()
	s.program = lab.Binary(t, "origin-dns-dispatcher")
	l.Veth("eth0", l.Namespace("wire"), "wire0")
	l.Addr("eth0", "192.168.122.50/24")
	l.Route("default via 192.168.122.1 dev eth0")
	if !s.Alone {
		startResolver(t, l, "192.168.122.50", false)
	}
	for _, dir := range usualDirs {
		makeDir(t, dir)
	}
	l.WriteFile("/var/cache/node-dns/cluster.snapshot", "x") // the node has a cluster
	if s.Bind {
		l.WriteFile("/run/lab/bound", "")
		l.WriteFile(resolvConf, "")
		l.Run("mount", "--bind", "/run/lab/bound", resolvConf)
	}
}

// lay restores the files as they were before the run.
func (s *scene) setUp(t *testing.T, l *lab.Lab) {
	t.Helper()
	for _, path := range append(leftovers(t), written...) {
		if s.Bind && path == resolvConf {
			continue
		}
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
	}
	os.Remove("/var/lib/node-dns")             // creating it is a step too
	os.RemoveAll("/run/origin-dns-dispatcher") // history of another scene
	for path, file := range s.Files {
		l.WriteFile(path, file.Content)
		if file.Symlink != "" {
			os.Remove(path)
			file.build(t, l, path)
		}
	}
}

func (s *scene) environ() []string { return append([]string{"PATH=" + lab.Path}, s.Env...) }

// contents returns the files: a link as "-> target", a missing one as "".
func contents(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, path := range written {
		target, err := os.Readlink(path)
		if err == nil {
			all[path] = "-> " + target
			continue
		}
		data, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		all[path] = string(data)
	}
	all[recordFile] = without(t, "time", all[recordFile])
	all[factsFile] = without(t, "stamp", all[factsFile])
	return all
}

// without removes from a record or facts the time of the run or of the node-config.yaml, which is
// new each time the files are created.
func without(t *testing.T, key, record string) string {
	t.Helper()
	if record == "" {
		return ""
	}
	var fields map[string]any
	if err := json.Unmarshal([]byte(record), &fields); err != nil {
		t.Errorf("the record is incomplete: %v\n%s", err, record)
		return record
	}
	delete(fields, key)
	text, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// leftovers returns the temporary files in the directories where the dispatcher writes.
func leftovers(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, dir := range []string{"/etc", "/etc/dnsmasq.d", "/etc/origin/node", "/var/lib/node-dns", "/run", "/run/origin-dns-dispatcher", "/tmp"} {
		entries, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		for _, e := range entries {
			if strings.Contains(e.Name(), "node-dns-tmp") {
				all = append(all, dir+"/"+e.Name())
			}
		}
	}
	return all
}

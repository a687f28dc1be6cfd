package nodeconfig

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/node-dns/node-dns/internal/test/golden"
)

// parserOf returns the parser for a test file by its name.
func parserOf(t *testing.T, path string) func(string, io.Reader) (Config, error) {
	t.Helper()
	switch name := filepath.Base(path); {
	case strings.HasPrefix(name, "node-config"), strings.HasPrefix(name, "bootstrap"):
		return parseNodeConfig
	case strings.HasPrefix(name, "kubelet"):
		return parseKubelet
	case strings.HasPrefix(name, "node-dns"):
		return parseNodeDNS
	}
	t.Fatalf("no parser for %s", path)
	return nil
}

func files(t *testing.T, pattern string) []string {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		t.Fatalf("files %s: %v %v", pattern, paths, err)
	}
	return paths
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text) + "\n"
}

// TestGood reads files written by openshift-ansible, kubeadm and admins. The golden file is the
// complete Config.
func TestGood(t *testing.T) {
	for _, path := range files(t, "testdata/good/*.yaml") {
		t.Run(filepath.Base(path), func(t *testing.T) {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			c, err := parserOf(t, path)("/etc/origin/node/"+filepath.Base(path), bytes.NewReader(data))
			if err != nil {
				t.Fatal(err)
			}
			golden.Check(t, strings.TrimSuffix(path, ".yaml")+".json", asJSON(t, c))
		})
	}
}

// TestBad reads faulty files. The golden file has the error text and the values of the valid keys.
func TestBad(t *testing.T) {
	for _, path := range files(t, "testdata/bad/*.yaml") {
		t.Run(filepath.Base(path), func(t *testing.T) {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			c, err := parserOf(t, path)(filepath.Base(path), bytes.NewReader(data))
			if err == nil {
				t.Fatalf("no fault in %s", data)
			}
			checkConfig(t, c, err)
			good := ""
			if len(c.Sources) > 0 {
				good = "kept: " + asJSON(t, c.Sources)
			}
			golden.Check(t, strings.TrimSuffix(path, ".yaml")+".golden", err.Error()+"\n"+good)
		})
	}
}

// parseNodeConfig parses a node-config.yaml or bootstrap-node-config.yaml, like parseNodeDNS.
func parseNodeConfig(name string, in io.Reader) (Config, error) {
	return parseOne(name, in, nodeConfigFormat)
}

// parseKubelet parses a KubeletConfiguration, like parseNodeDNS.
func parseKubelet(name string, in io.Reader) (Config, error) {
	return parseOne(name, in, kubeletFormat)
}

// parseNodeDNS parses a node-dns.yaml. name appears in the faults. See Load for the error.
func parseNodeDNS(name string, in io.Reader) (Config, error) {
	return parseOne(name, in, nodeDNSFormat)
}

func parseOne(name string, in io.Reader, f format) (Config, error) {
	c := defaults()
	c.Files = []string{name}
	data, err := io.ReadAll(io.LimitReader(in, maxFile+1))
	if err != nil {
		c.forgetDomain(name)
		return c, fmt.Errorf("reading %s: %w", f.title, err)
	}
	return c, c.parse(name, data, f, "")
}

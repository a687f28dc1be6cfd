// Package contrib tests the files of contrib that test/nspawn does not use: those for the Machine
// Config Operator of OpenShift 4.
package contrib

import (
	"bytes"
	"encoding/json"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gopkg.in/yaml.v3"

	"github.com/node-dns/node-dns/internal/hostdns"
	"github.com/node-dns/node-dns/internal/nodeconfig"
	"github.com/node-dns/node-dns/internal/test/lab"
)

const repository = "../.."

// machineConfig is a MachineConfig with the keys that ours use.
type machineConfig struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string
	Metadata   metadata
	Spec       struct {
		OSImageURL string `yaml:"osImageURL"`
		Config     *ignition
	}
}

type metadata struct {
	Name   string
	Labels map[string]string
}

// ignition is an Ignition configuration, version 3.2.
type ignition struct {
	Ignition struct {
		Version string `json:"version"`
	} `json:"ignition"`
	Storage struct {
		Files []file `json:"files"`
	} `json:"storage"`
	Systemd struct {
		Units []unit `json:"units"`
	} `json:"systemd"`
}

type file struct {
	Path      string `json:"path"`
	Mode      int    `json:"mode"`
	Overwrite bool   `json:"overwrite"`
	Contents  struct {
		Source string `json:"source,omitempty"`
		Inline string `json:"-"` // only in Butane
	} `json:"contents"`
}

type unit struct {
	Name    string `json:"name"`
	Enabled bool   `json:"enabled"`
}

// butane is the source of a MachineConfig: https://coreos.github.io/butane/config-openshift-v4_10.
type butane struct {
	Variant, Version string
	Metadata         metadata
	Storage          struct{ Files []file }
	Systemd          struct{ Units []unit }
}

// read decodes a file of contrib/machineconfig. Unknown keys are an error.
func read(t *testing.T, path string, to any) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	decoder.KnownFields(true)
	if err := decoder.Decode(to); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// all returns the MachineConfigs by path.
func all(t *testing.T) map[string]machineConfig {
	t.Helper()
	paths, err := filepath.Glob(repository + "/contrib/machineconfig/*.yaml")
	if err != nil || len(paths) != 4 {
		t.Fatalf("found %v, %v", paths, err)
	}
	found := map[string]machineConfig{}
	for _, path := range paths {
		var m machineConfig
		read(t, path, &m)
		found[path] = m
	}
	return found
}

// text returns the content of a file from its data: URL (RFC 2397).
func (f file) text(t *testing.T) string {
	t.Helper()
	escaped, ok := strings.CutPrefix(f.Contents.Source, "data:,")
	text, err := url.PathUnescape(escaped)
	if !ok || err != nil {
		t.Fatalf("%s: %q: %v", f.Path, f.Contents.Source, err)
	}
	return text
}

// TestMachineConfigs: each is for workers, is valid for Ignition, and matches its Butane source.
func TestMachineConfigs(t *testing.T) {
	for path, m := range all(t) {
		name := strings.TrimSuffix(filepath.Base(path), ".yaml")
		want := metadata{name, map[string]string{"machineconfiguration.openshift.io/role": "worker"}}
		if d := cmp.Diff(want, m.Metadata); d != "" || m.APIVersion != "machineconfiguration.openshift.io/v1" || m.Kind != "MachineConfig" {
			t.Errorf("%s is a %s %s (-want +got):\n%s", path, m.APIVersion, m.Kind, d)
		}
		if m.Spec.Config == nil {
			if m.Spec.OSImageURL == "" {
				t.Errorf("%s is empty", path)
			}
			continue
		}
		validate(t, path, *m.Spec.Config)
		var b butane
		read(t, strings.TrimSuffix(path, ".yaml")+".bu", &b)
		// Butane 4.10 produces Ignition 3.2.
		if d := cmp.Diff(want, b.Metadata); d != "" || b.Variant != "openshift" || b.Version != "4.10.0" || m.Spec.Config.Ignition.Version != "3.2.0" {
			t.Errorf("%s: got the source version %s %s, metadata (-want +got):\n%s", path, b.Variant, b.Version, d)
		}
		var files []file
		for _, f := range m.Spec.Config.Storage.Files {
			f.Contents.Inline, f.Contents.Source = f.text(t), ""
			files = append(files, f)
		}
		if d := cmp.Diff(b.Storage.Files, files) + cmp.Diff(b.Systemd.Units, m.Spec.Config.Systemd.Units); d != "" {
			t.Errorf("%s differs from its source (-source +file):\n%s", path, d)
		}
	}
}

// validate checks the configuration with Ignition's own program.
func validate(t *testing.T, path string, config ignition) {
	t.Helper()
	lab.NeedPrograms(t, "ignition-validate")
	data, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("ignition-validate", "-")
	cmd.Stdin = bytes.NewReader(data)
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%s: ignition-validate: %v\n%s", path, err, out)
	}
}

// TestMachineConfigOnNode: a node with all of them has a valid configuration, all of which is
// effective, and only known units.
func TestMachineConfigOnNode(t *testing.T) {
	root := t.TempDir()
	for _, m := range all(t) {
		if m.Spec.Config == nil {
			continue
		}
		for _, f := range m.Spec.Config.Storage.Files {
			path := filepath.Join(root, f.Path)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(f.text(t)), os.FileMode(f.Mode)); err != nil {
				t.Fatal(err)
			}
		}
		for _, u := range m.Spec.Config.Systemd.Units {
			if _, err := os.Stat(filepath.Join(repository, "systemd", u.Name)); err != nil {
				t.Errorf("%s is an unknown unit", u.Name)
			}
		}
	}
	config, err := nodeconfig.Load(nodeconfig.DefaultPaths(root))
	if err != nil || len(config.ClusterDNS) != 1 {
		t.Errorf("node-dns.yaml: %v, %v", config.ClusterDNS, err)
	}
}

// TestKubeletConfig: it names the file that the hook writes for pods.
func TestKubeletConfig(t *testing.T) {
	text, err := os.ReadFile(repository + "/contrib/machineconfig/kubelet/worker-node-dns.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Kind string
		Spec struct {
			KubeletConfig struct {
				ResolvConf string `yaml:"resolvConf"`
			} `yaml:"kubeletConfig"`
		}
	}
	if err := yaml.Unmarshal(text, &config); err != nil {
		t.Fatal(err)
	}
	if want := hostdns.NewPaths("").NodeResolvConf; config.Kind != "KubeletConfig" || config.Spec.KubeletConfig.ResolvConf != want {
		t.Errorf("got %+v, want resolvConf %s", config, want)
	}
}

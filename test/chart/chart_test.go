package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	securityv1 "github.com/openshift/api/security/v1"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	"sigs.k8s.io/yaml"
)

const (
	repository = "../.."
	chartDir   = repository + "/charts/node-dns"
	rules      = repository + "/contrib/prometheus/rules.yaml"
	dashboard  = repository + "/contrib/grafana/node-dns.json"
)

var update = flag.Bool("update", false, "write the golden files")

func TestMain(m *testing.M) {
	log.SetOutput(io.Discard) // Helm logs each symbolic link of the chart
	os.Exit(m.Run())
}

// variants are the sets of values that the golden files show: testdata/NAME.values.yaml, or the
// default values.
var variants = []string{"default", "all", "without", "canary", "cilium", "rke2"}

func readFile(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func parse(t *testing.T, text string) map[string]any {
	t.Helper()
	var m map[string]any
	if err := yaml.UnmarshalStrict([]byte(text), &m); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return m
}

func valuesOf(t *testing.T, variant string) map[string]any {
	t.Helper()
	if variant == "default" {
		return nil
	}
	return parse(t, readFile(t, "testdata/"+variant+".values.yaml"))
}

func rendered(t *testing.T, values map[string]any) output {
	t.Helper()
	out, err := render(chartDir, manifestsRelease, values)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// documents returns the objects as text, by kind and name.
func documents(t *testing.T, objects string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, text := range strings.Split(objects, "---\n")[1:] {
		o := parse(t, text)
		key := o["kind"].(string) + "/" + o["metadata"].(map[string]any)["name"].(string)
		if all[key] != "" {
			t.Errorf("%s occurs twice", key)
		}
		all[key] = text
	}
	return all
}

// TestLint: Helm's linter has no warning.
func TestLint(t *testing.T) {
	for _, variant := range variants {
		t.Run(variant, func(t *testing.T) {
			found := lint.AllWithKubeVersion(chartDir, valuesOf(t, variant), manifestsRelease.Namespace, nil)
			if len(found.Messages) == 0 {
				t.Error("the linter did not even recommend an icon") // it has always done
			}
			for _, m := range found.Messages {
				if m.Severity > support.InfoSev {
					t.Error(m)
				}
			}
		})
	}
}

// TestGolden: the objects are those of the golden files, which other tests apply to an API server.
func TestGolden(t *testing.T) {
	for _, variant := range variants {
		t.Run(variant, func(t *testing.T) {
			got, path := abridge(rendered(t, valuesOf(t, variant)).objects), "testdata/"+variant+".yaml"
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if d := cmp.Diff(readFile(t, path), got); d != "" {
				t.Errorf("-%s +got (run go test -update):\n%s", path, d)
			}
		})
	}
}

// abridge leaves out the long files that TestFiles compares.
func abridge(objects string) string {
	all := strings.Split(objects, "\n---\n")
	for i, text := range all {
		for mark, long := range map[string]string{"\ndata:\n": "  node-dns.json: |\n", "\nspec:\n": "\nkind: PrometheusRule\n"} {
			if before, _, ok := strings.Cut(text, mark); ok && strings.Contains(text, long) {
				all[i] = before + mark + "  {} # see TestFiles"
			}
		}
	}
	return strings.TrimSuffix(strings.Join(all, "\n---\n"), "\n") + "\n"
}

// TestAllValues: testdata/all.values.yaml sets every value that values.schema.json describes, and
// values.yaml has a default for it. Those of Cilium, which exclude the helper's, are in
// testdata/rke2.values.yaml.
func TestAllValues(t *testing.T) {
	schema := parse(t, readFile(t, chartDir+"/values.schema.json"))
	defaults, all := parse(t, readFile(t, chartDir+"/values.yaml")), valuesOf(t, "all")
	all["cilium"] = valuesOf(t, "rke2")["cilium"]
	seen := 0
	var walk func(path []string, schema, defaults, all map[string]any)
	walk = func(path []string, schema, defaults, all map[string]any) {
		for name, property := range schema["properties"].(map[string]any) {
			property, path := property.(map[string]any), append(slices.Clone(path), name)
			if property["description"] == nil {
				t.Errorf("%s has no description", strings.Join(path, "."))
			}
			if slices.Equal(path, []string{"global"}) {
				continue
			}
			seen++
			d, hasDefault := defaults[name]
			v, isSet := all[name]
			if !hasDefault || !isSet || reflect.DeepEqual(d, v) {
				t.Errorf("%s: got the default %v and the value %v", strings.Join(path, "."), d, v)
			}
			// Values such as affinity are Kubernetes's own: their default is empty.
			if below, ok := d.(map[string]any); ok && property["properties"] != nil && len(below) > 0 && name != "config" && name != "resources" {
				walk(path, property, below, v.(map[string]any))
			}
		}
	}
	walk(nil, schema, defaults, all)
	if seen < 30 {
		t.Errorf("only %d values were compared", seen)
	}
}

// TestSchema: Helm rejects invalid values and names them.
func TestSchema(t *testing.T) {
	for _, test := range []struct {
		name, values string
		want         string // part of the error; "" if the values are right
	}{
		{"a key of node-dns.yaml that the chart does not know", "config: {cacheSize: 5}", ""},
		{"values of a parent chart", "global: {a: b}", ""},
		{"a key that does not exist", "imagee: {}", "additional properties 'imagee' not allowed"},
		{"a key that does not exist, below", "image: {name: x}", "at '/image': additional properties 'name' not allowed"},
		{"a setting of node-dns.yaml at the top", "intercept: clusterDNS", "at '/intercept': got string, want object"},
		{"config is text", "config: 'intercept: none'", "at '/config': got string, want object"},
		{"a pull policy that does not exist", "image: {pullPolicy: Sometimes}", "at '/image/pullPolicy': value must be one of"},
		{"a tag with a digest", "image: {tag: '1@sha256:0'}", "at '/image/tag'"},
		{"a port that is too large", "metrics: {port: 65536}", "at '/metrics/port': maximum: got 65,536, want 65,535"},
		{"one node's address", "metrics: {address: 192.0.2.1}", "at '/metrics/address': value must be one of"},
		{"the address of metrics in node-dns.yaml", "config: {metrics: {address: '0.0.0.0:9453'}}", "set metrics.address and metrics.port instead of config.metrics.address"},
		{"a ServiceMonitor for loopback", "serviceMonitor: {enabled: true}", "set metrics.address to 0.0.0.0"},
		{"a ServiceMonitor", "{serviceMonitor: {enabled: true}, metrics: {address: 0.0.0.0}}", ""},
		{"an update of no node at a time", "maxUnavailable: 0%", "at '/maxUnavailable'"},
		{"an update of more than all nodes", "maxUnavailable: 101%", "at '/maxUnavailable'"},
		{"an update strategy that does not exist", "updateStrategy: Recreate", "at '/updateStrategy': value must be one of"},
		{"a toleration that does not exist", "tolerations: [{operator: Exist}]", "at '/tolerations/0/operator'"},
		{"a selector with a number", "nodeSelector: {a: 1}", "at '/nodeSelector/a': got number, want string"},
		{"resources without requests and limits", "resources: {memory: 1Gi}", "at '/resources': additional properties 'memory' not allowed"},
		{"a secret without a name", "imagePullSecrets: [{}]", "at '/imagePullSecrets/0': missing property 'name'"},
		{"a switch as text", "openshift: {scc: 'yes'}", "at '/openshift/scc': got string, want boolean"},
		{"an interval without a unit", "serviceMonitor: {interval: '30'}", "at '/serviceMonitor/interval'"},
		{"the name of a port that Kubernetes refuses", "cilium: {ports: {udp: a-name-with-more-than-15}}", "at '/cilium/ports/udp'"},
		{"another port of the DNS Service", "cilium: {ports: {metrics: metrics}}", "at '/cilium/ports': additional properties 'metrics' not allowed"},
		{"a name in upper case", "fullnameOverride: DNS", "at '/fullnameOverride'"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := render(chartDir, manifestsRelease, parse(t, test.values))
			switch {
			case test.want == "" && err != nil:
				t.Error(err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("got %v, want an error with %s", err, test.want)
			}
		})
	}
}

// TestConfigNeedsNoRestart: another setting changes the ConfigMap, and not the pods.
func TestConfigNeedsNoRestart(t *testing.T) {
	before := documents(t, rendered(t, nil).objects)
	after := documents(t, rendered(t, parse(t, "config: {cacheSize: 20000, upstreams: [192.0.2.53]}")).objects)
	var changed []string
	for key := range before {
		if before[key] != after[key] {
			changed = append(changed, key)
		}
	}
	if len(before) != len(after) || !slices.Equal(changed, []string{"ConfigMap/node-dns"}) {
		t.Errorf("changed: %q", changed)
	}
}

// TestConfigRolls: with rollConfig, another setting changes the pods' template, whose annotation
// the daemon reads in place of the ConfigMap.
func TestConfigRolls(t *testing.T) {
	template := func(values string) (config string, volumes any) {
		set := parse(t, documents(t, rendered(t, parse(t, values)).objects)["DaemonSet/node-dns"])
		pod := set["spec"].(map[string]any)["template"].(map[string]any)
		annotations, _ := pod["metadata"].(map[string]any)["annotations"].(map[string]any)
		config, _ = annotations["node-dns/config"].(string)
		return config, pod["spec"].(map[string]any)["volumes"].([]any)[0]
	}
	if config, _ := template("{rollConfig: false}"); config != "" {
		t.Errorf("without rollConfig, the annotation is %q", config)
	}
	config, volume := template("{rollConfig: true, podAnnotations: {a: b}, config: {upstreams: [192.0.2.53]}}")
	settings := parse(t, config)
	if d := cmp.Diff([]any{"192.0.2.53"}, settings["upstreams"]); d != "" || settings["metrics"] == nil {
		t.Errorf("the annotation is %s", config)
	}
	want := parse(t, "{name: config, downwardAPI: {items: [{path: node-dns.yaml, fieldRef: {fieldPath: \"metadata.annotations['node-dns/config']\"}}]}}")
	if d := cmp.Diff(any(want), volume); d != "" {
		t.Errorf("the volume: -want +got:\n%s", d)
	}
}

// TestInterceptContainer: there is a helper if, and only if, node-dns.yaml requests interception.
func TestInterceptContainer(t *testing.T) {
	for _, test := range []struct {
		config string
		want   bool
	}{
		{"{intercept: clusterDNS}", true},
		{"{intercept: 169.254.20.10}", true},
		{"{intercept: [none, clusterDNS]}", true},
		{"{intercept: none}", false},
		{"{intercept: [none]}", false},
		{"{intercept: null}", false},
		{"{intercept: clusterDNS}, cilium: {enabled: true}", false},
	} {
		t.Run(test.config, func(t *testing.T) {
			set := documents(t, rendered(t, parse(t, "{config: "+test.config+"}")).objects)["DaemonSet/node-dns"]
			for _, part := range []string{"node-dns-intercept", "NET_ADMIN", "initContainers"} {
				if strings.Contains(set, part) != test.want {
					t.Errorf("%s: got %v, want %v", part, !test.want, test.want)
				}
			}
		})
	}
}

// TestFiles: the alerts and the dashboard are those of contrib.
func TestFiles(t *testing.T) {
	for _, test := range []struct{ namespace, prefix string }{{"nodedns", "nodedns_"}, {"coredns", "coredns_"}} {
		t.Run(test.namespace, func(t *testing.T) {
			all := documents(t, rendered(t, parse(t, "{prometheusRule: {enabled: true}, dashboard: {enabled: true}, config: {metrics: {namespace: "+test.namespace+"}}}")).objects)
			named := func(path string) string { return strings.ReplaceAll(readFile(t, path), "nodedns_", test.prefix) }
			rule := parse(t, all["PrometheusRule/node-dns"])
			if d := cmp.Diff(parse(t, named(rules)), rule["spec"]); d != "" {
				t.Errorf("alerts: -contrib +chart:\n%s", d)
			}
			data := parse(t, all["ConfigMap/node-dns-dashboard"])["data"].(map[string]any)
			if got, _ := data["node-dns.json"].(string); got != strings.TrimSpace(named(dashboard))+"\n" || !json.Valid([]byte(got)) {
				t.Errorf("the dashboard is not that of contrib: %d bytes", len(got))
			}
		})
	}
}

// TestKindsOfOperators: the objects that no API server of ours knows have the fields of their Go
// types.
func TestKindsOfOperators(t *testing.T) {
	all := documents(t, rendered(t, valuesOf(t, "all")).objects)
	for key, object := range map[string]any{
		"ServiceMonitor/dns-agent":                         new(monitoringv1.ServiceMonitor),
		"PrometheusRule/dns-agent":                         new(monitoringv1.PrometheusRule),
		"SecurityContextConstraints/kube-system-dns-agent": new(securityv1.SecurityContextConstraints),
	} {
		if all[key] == "" {
			t.Errorf("no %s", key)
			continue
		}
		if err := yaml.UnmarshalStrict([]byte(all[key]), object); err != nil {
			t.Errorf("%s: %v", key, err)
		}
	}
}

// TestConstraints: the SecurityContextConstraints admit what the DaemonSet asks for, and no more.
func TestConstraints(t *testing.T) {
	for _, values := range []string{"{openshift: {scc: true}}", "{openshift: {scc: true}, config: {intercept: none}}", "{openshift: {scc: true}, cilium: {enabled: true}}", "{openshift: {scc: true}, rollConfig: true}"} {
		t.Run(values, func(t *testing.T) { checkConstraints(t, documents(t, rendered(t, parse(t, values)).objects)) })
	}
}

func checkConstraints(t *testing.T, all map[string]string) {
	t.Helper()
	var scc securityv1.SecurityContextConstraints
	if err := yaml.UnmarshalStrict([]byte(all["SecurityContextConstraints/kube-system-node-dns"]), &scc); err != nil {
		t.Fatal(err)
	}
	set := all["DaemonSet/node-dns"]
	capabilities := []string{}
	for _, c := range scc.AllowedCapabilities {
		capabilities = append(capabilities, string(c))
	}
	asked := []string{}
	for _, line := range strings.Split(set, "\n") {
		if list, ok := strings.CutPrefix(strings.TrimSpace(line), "add: ["); ok {
			asked = append(asked, strings.TrimSuffix(list, "]"))
		}
	}
	if d := cmp.Diff(asked, capabilities); d != "" {
		t.Errorf("capabilities: -DaemonSet +constraints:\n%s", d)
	}
	if isHosts := strings.Contains(set, "hostNetwork: true"); scc.AllowHostNetwork != isHosts || scc.AllowHostPorts != isHosts {
		t.Errorf("the node's network is allowed: %v, its ports: %v, but used: %v", scc.AllowHostNetwork, scc.AllowHostPorts, isHosts)
	}
	var volumes struct {
		Spec struct {
			Template struct {
				Spec struct{ Volumes []map[string]any }
			}
		}
	}
	if err := yaml.Unmarshal([]byte(set), &volumes); err != nil {
		t.Fatal(err)
	}
	used, allowed := map[string]bool{}, map[string]bool{}
	for _, v := range volumes.Spec.Template.Spec.Volumes {
		for kind := range v {
			used[kind] = kind != "name"
		}
	}
	for _, v := range scc.Volumes {
		allowed[string(v)] = true
	}
	allowed["name"] = false // beside the kind
	if d := cmp.Diff(used, allowed); d != "" {
		t.Errorf("kinds of volumes: -DaemonSet +constraints:\n%s", d)
	}
	if d := cmp.Diff([]string{"system:serviceaccount:kube-system:node-dns"}, scc.Users); d != "" {
		t.Errorf("users:\n%s", d)
	}
}

// TestCilium: the policy redirects the ports that the pods have by name, to pods that the DaemonSet
// makes, in the namespace of both. The pods have a network of their own, listen on all of its
// addresses, and are probed there.
func TestCilium(t *testing.T) {
	type port struct {
		Name          string
		Port          string // of the policy
		ContainerPort int
		Protocol      string
	}
	type object struct {
		Metadata struct{ Namespace string }
		Data     map[string]string
		Spec     struct {
			RedirectFrontend struct {
				ServiceMatcher struct {
					ServiceName, Namespace string
					ToPorts                []port
				}
			}
			RedirectBackend struct {
				LocalEndpointSelector struct{ MatchLabels map[string]string }
				ToPorts               []port
			}
			UpdateStrategy struct {
				RollingUpdate struct{ MaxUnavailable, MaxSurge any }
			}
			Template struct {
				Metadata struct{ Labels map[string]string }
				Spec     struct {
					HostNetwork    bool
					DNSPolicy      string
					InitContainers []any
					Containers     []struct {
						Ports          []port
						ReadinessProbe struct {
							HTTPGet struct{ Host string }
						}
					}
				}
			}
		}
	}
	for variant, want := range map[string]struct{ service, udp, tcp, metrics string }{
		"cilium": {"kube-dns", "dns", "dns-tcp", "0.0.0.0:9453"},
		"rke2":   {"rke2-coredns-rke2-coredns", "udp-53", "tcp-53", "[::]:9453"},
	} {
		t.Run(variant, func(t *testing.T) {
			all := documents(t, rendered(t, valuesOf(t, variant)).objects)
			read := func(key string) (o object) {
				if err := yaml.Unmarshal([]byte(all[key]), &o); err != nil || all[key] == "" {
					t.Fatalf("%s: %v", key, err)
				}
				return o
			}
			policy, set := read("CiliumLocalRedirectPolicy/node-dns"), read("DaemonSet/node-dns")
			ports := []port{{want.udp, "53", 0, "UDP"}, {want.tcp, "53", 0, "TCP"}}
			matcher := policy.Spec.RedirectFrontend.ServiceMatcher
			if matcher.ServiceName != want.service || matcher.Namespace != "kube-system" || policy.Metadata.Namespace != "kube-system" || set.Metadata.Namespace != "kube-system" {
				t.Errorf("got the Service %s/%s, a policy in %s and pods in %s", matcher.Namespace, matcher.ServiceName, policy.Metadata.Namespace, set.Metadata.Namespace)
			}
			if d := cmp.Diff(ports, matcher.ToPorts) + cmp.Diff(ports, policy.Spec.RedirectBackend.ToPorts); d != "" {
				t.Error(d)
			}
			if d := cmp.Diff(set.Spec.Template.Metadata.Labels, policy.Spec.RedirectBackend.LocalEndpointSelector.MatchLabels); d != "" {
				t.Errorf("labels: -pods +policy:\n%s", d)
			}
			pod := set.Spec.Template.Spec
			container := pod.Containers[0]
			if d := cmp.Diff([]port{{want.udp, "", 53, "UDP"}, {want.tcp, "", 53, "TCP"}}, container.Ports[:2]); d != "" {
				t.Error(d)
			}
			if pod.HostNetwork || pod.DNSPolicy != "Default" || len(pod.InitContainers) > 0 || len(pod.Containers) != 1 || container.ReadinessProbe.HTTPGet.Host != "" {
				t.Errorf("got %+v", pod)
			}
			if r := set.Spec.UpdateStrategy.RollingUpdate; r.MaxUnavailable != 0.0 || r.MaxSurge != "10%" {
				t.Errorf("got %+v", r)
			}
			config := parse(t, read("ConfigMap/node-dns").Data["node-dns.yaml"])
			got := []any{config["intercept"], config["listen"], config["metrics"].(map[string]any)["address"]}
			if d := cmp.Diff([]any{"cilium", "all", want.metrics}, got); d != "" {
				t.Error(d)
			}
		})
	}
	t.Run("listen in node-dns.yaml stays", func(t *testing.T) {
		all := documents(t, rendered(t, parse(t, "{cilium: {enabled: true}, config: {listen: auto}}")).objects)
		if text := all["ConfigMap/node-dns"]; !strings.Contains(text, "    listen: auto\n") {
			t.Errorf("got %s", text)
		}
	})
}

// TestLongNames: the name of a Service has at most 63 characters, however long the release's name
// is. Helm allows 53, and the API server refused the Service.
func TestLongNames(t *testing.T) {
	label := regexp.MustCompile(`^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$`)
	for _, test := range []struct{ release, override string }{
		{strings.Repeat("r", 53), ""},
		{"node-dns", strings.Repeat("r", 63)},
		{"node-dns", strings.Repeat("r", 54) + "-" + strings.Repeat("s", 8)},
	} {
		release := manifestsRelease
		release.Name = test.release
		out, err := render(chartDir, release, parse(t, "{fullnameOverride: '"+test.override+"', serviceMonitor: {enabled: true}, metrics: {address: 0.0.0.0}}"))
		if err != nil {
			t.Fatal(err)
		}
		services := 0
		for key := range documents(t, out.objects) {
			kind, name, _ := strings.Cut(key, "/")
			if kind != "Service" {
				continue
			}
			services++
			if !label.MatchString(name) {
				t.Errorf("the Service's name %s is not a label (RFC 1035 section 2.3.1)", name)
			}
		}
		if services != 1 {
			t.Errorf("got %d Services", services)
		}
	}
}

// TestNotes: the notes name the release's objects, and say what the network must allow.
func TestNotes(t *testing.T) {
	const policies, redirects = "A NetworkPolicy for DNS must allow", "Cilium redirects pods' queries only if"
	for _, test := range []struct{ name, values, has, lacks string }{
		{"interception", "fullnameOverride: dns-agent", policies, redirects},
		{"no interception", "{fullnameOverride: dns-agent, config: {intercept: none}}", "", policies},
		{"Cilium", "{fullnameOverride: dns-agent, cilium: {enabled: true}}", redirects, policies},
	} {
		t.Run(test.name, func(t *testing.T) {
			notes := rendered(t, parse(t, test.values)).notes
			for _, want := range []string{"kubectl -n kube-system exec ds/dns-agent -c node-dns -- node-dns status\n", test.has} {
				if !strings.Contains(notes, want) {
					t.Errorf("no %q in\n%s", want, notes)
				}
			}
			if strings.Contains(notes, test.lacks) {
				t.Errorf("%q in\n%s", test.lacks, notes)
			}
		})
	}
}

// TestMakeManifests: make manifests writes the objects with default values.
func TestMakeManifests(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dir/node-dns.yaml")
	var out bytes.Buffer
	make := exec.Command("make", "-C", repository, "manifests", "MANIFESTS="+path)
	make.Stdout, make.Stderr = &out, &out
	if err := make.Run(); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	if d := cmp.Diff(readFile(t, "testdata/default.yaml"), readFile(t, path)); d != "" {
		t.Errorf("-golden +make:\n%s", d)
	}
}

// TestUsage: the program takes one directory, which must have a chart.
func TestUsage(t *testing.T) {
	for _, test := range []struct {
		args []string
		want string
	}{
		{nil, usage},
		{[]string{"a", "b"}, usage},
		{[]string{"testdata"}, "loading testdata: Chart.yaml file is missing"},
	} {
		if err := run(test.args); err == nil || err.Error() != test.want {
			t.Errorf("%q: got %v, want %s", test.args, err, test.want)
		}
	}
}

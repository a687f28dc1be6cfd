// Command chart prints the objects of charts/node-dns with its default values, like `helm
// template`. It is in a separate module, because it depends on Helm.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"strings"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/releaseutil"
)

const usage = "usage: chart DIR: print the objects of the chart in DIR with its default values"

// manifestsRelease is the release of the printed objects.
var manifestsRelease = chartutil.ReleaseOptions{Name: "node-dns", Namespace: "kube-system", Revision: 1, IsInstall: true}

func main() {
	flag.Parse()
	log.SetOutput(io.Discard) // Helm logs each symbolic link of the chart
	if err := run(flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "chart:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return errors.New(usage)
	}
	rendered, err := render(args[0], manifestsRelease, nil)
	if err != nil {
		return err
	}
	_, err = fmt.Print(rendered.objects)
	return err
}

// output is the result of rendering a chart with Helm.
type output struct {
	objects string // YAML documents, in the order in which Helm creates them
	notes   string
}

// render renders the chart in a directory with values that override its own.
func render(dir string, release chartutil.ReleaseOptions, values map[string]any) (output, error) {
	chart, err := loader.LoadDir(dir)
	if err != nil {
		return output{}, fmt.Errorf("loading %s: %w", dir, err)
	}
	all, err := chartutil.ToRenderValues(chart, values, release, chartutil.DefaultCapabilities)
	if err != nil {
		return output{}, fmt.Errorf("values of %s: %w", dir, err)
	}
	files, err := engine.Render(chart, all)
	if err != nil {
		return output{}, fmt.Errorf("rendering %s: %w", dir, err)
	}
	notes := chart.Name() + "/templates/NOTES.txt"
	out := output{notes: files[notes]}
	delete(files, notes)
	_, manifests, err := releaseutil.SortManifests(files, nil, releaseutil.InstallOrder)
	if err != nil {
		return output{}, fmt.Errorf("sorting the objects of %s: %w", dir, err)
	}
	var b strings.Builder
	for _, m := range manifests {
		fmt.Fprintf(&b, "---\n# Source: %s\n%s\n", m.Name, strings.TrimSpace(m.Content))
	}
	out.objects = b.String()
	return out, nil
}

// image writes the OCI image of node-dns as a tar of an OCI layout: one image for each
// architecture, and an index of them. It needs neither a registry nor a daemon. The same input
// gives the same bytes.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"
)

const usage = `Usage: image -version VERSION -revision COMMIT -license EXPRESSION -sysusers FILE -files DIR -programs DIR ARCH ...
-programs has a directory for each ARCH (GOARCH), and -files the files of all architectures. Both are
trees as in the image. SOURCE_DATE_EPOCH is the time of the image and its files.
`

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(args []string, stdout io.Writer) error {
	var r release
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	flags.Usage = func() { fmt.Fprint(flags.Output(), usage) }
	flags.StringVar(&r.version, "version", "", "")
	flags.StringVar(&r.revision, "revision", "", "")
	flags.StringVar(&r.license, "license", "", "")
	sysusers := flags.String("sysusers", "", "")
	common := flags.String("files", "", "")
	programs := flags.String("programs", "", "")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if r.version == "" || r.license == "" || *sysusers == "" || *common == "" || *programs == "" || flags.NArg() == 0 {
		return errors.New("expected -version, -license, -sysusers, -files, -programs and an architecture; see image -help")
	}
	epoch, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return fmt.Errorf("reading SOURCE_DATE_EPOCH, the time of the image: %w", err)
	}
	r.time = time.Unix(epoch, 0).UTC()

	text, err := os.ReadFile(*sysusers)
	if err != nil {
		return err
	}
	users, err := parseSysusers(string(text))
	if err != nil {
		return fmt.Errorf("reading %s: %w", *sysusers, err)
	}
	shared, err := readTree(*common)
	if err != nil {
		return err
	}
	for _, arch := range flags.Args() {
		own, err := readTree(filepath.Join(*programs, arch))
		if err != nil {
			return err
		}
		layer, err := archive(content(users, slices.Concat(shared, own)), r.time)
		if err != nil {
			return fmt.Errorf("writing the layer for %s: %w", arch, err)
		}
		r.platforms = append(r.platforms, platform{arch: arch, layer: layer})
	}
	return writeLayout(stdout, r)
}

// sbom writes the software bill of materials of built programs, as SPDX 2.3 in JSON. It reads the
// modules from the programs themselves, as `go version -m` does, and their licenses from a vendor
// directory. The same programs give the same bytes.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spdx/tools-golang/json"
)

const usage = `Usage: sbom -name NAME -version VERSION -license EXPRESSION -vendor DIR -sums GO.SUM [-debian PACKAGE=VERSION=LICENSE=NAME=FILE] NAME=FILE ...
NAME=FILE is a program: its name in the product, and the file. SOURCE_DATE_EPOCH is the document's time.
`

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func run(args []string, stdout io.Writer) error {
	var p product
	flags := flag.NewFlagSet("sbom", flag.ContinueOnError)
	flags.Usage = func() { fmt.Fprint(flags.Output(), usage) }
	flags.StringVar(&p.name, "name", "", "")
	flags.StringVar(&p.version, "version", "", "")
	flags.StringVar(&p.license, "license", "", "")
	vendor := flags.String("vendor", "", "")
	sums := flags.String("sums", "", "")
	flags.Func("debian", "", func(value string) error {
		fields := strings.SplitN(value, "=", 5)
		if len(fields) != 5 {
			return errors.New("expected PACKAGE=VERSION=LICENSE=NAME=FILE")
		}
		f, err := readFile(fields[3], fields[4])
		p.debian = append(p.debian, debianPackage{name: fields[0], version: fields[1], license: fields[2], file: f})
		return err
	})
	if err := flags.Parse(args); err != nil {
		return err
	}
	if p.name == "" || p.version == "" || p.license == "" || *vendor == "" || *sums == "" || flags.NArg() == 0 {
		return errors.New("expected -name, -version, -license, -vendor, -sums and a program; see sbom -help")
	}
	epoch, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return fmt.Errorf("reading SOURCE_DATE_EPOCH, the document's time: %w", err)
	}
	p.time = time.Unix(epoch, 0).UTC()
	for _, arg := range flags.Args() {
		name, path, ok := strings.Cut(arg, "=")
		if !ok {
			return fmt.Errorf("expected NAME=FILE, got %q", arg)
		}
		program, err := readProgram(name, path)
		if err != nil {
			return err
		}
		p.programs = append(p.programs, program)
	}
	if p.sums, err = readSums(*sums); err != nil {
		return err
	}
	if err := p.check(); err != nil {
		return err
	}
	if p.licenses, err = moduleLicenses(*vendor, p.modules()); err != nil {
		return err
	}
	return json.Write(p.document(), stdout, json.Indent("  "), json.EscapeHTML(false))
}

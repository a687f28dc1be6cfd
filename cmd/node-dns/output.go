package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"
	"unicode/utf16"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
	"gopkg.in/yaml.v3"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/sys/termtext"
)

// page is what a command shows: to people as text, to programs as its JSON.
type page interface {
	WriteText(w io.Writer) error
}

// addOutputFlag adds -o, which checkOutput knows the words of.
func addOutputFlag(cmd *cobra.Command, output *string) {
	cmd.Flags().StringVarP(output, "output", "o", "text", "print in this `format`: text, json or yaml")
	// It fails only where there is no such flag.
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"text", "json", "yaml"}, cobra.ShellCompDirectiveNoFileComp))
}

func checkOutput(output string) error {
	switch output {
	case "text", "json", "yaml":
		return nil
	}
	return usageError{fmt.Errorf("-o %s: expected text, json or yaml", output)}
}

// rootToShow is rootOf for a command that shows what it finds in the form of -o.
func rootToShow(cmd *cobra.Command, output string) (string, error) {
	if err := checkOutput(output); err != nil {
		return "", err
	}
	return rootOf(cmd)
}

// show prints a page in the form that -o names. Problems that are in it make it errShown.
func show(cmd *cobra.Command, p page, output string, problems []string) error {
	out := cmd.OutOrStdout()
	return showOn(out, p, output, problems, looksOf(out))
}

// looks are how a text may be written.
type looks struct {
	isColoured bool
	columns    int // width of the terminal; 0: not a terminal, or unknown
}

// looksOf are those of a command's output.
func looksOf(out io.Writer) looks {
	size, isTerminal := sizeOf(out)
	// Colours are for terminals, and not for users who do not want them (no-color.org).
	return looks{isTerminal && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb", int(size.Col)}
}

// showOn is show to w, which may be a part of the output.
func showOn(w io.Writer, p page, output string, problems []string, l looks) error {
	var err error
	switch output {
	case "json":
		err = writeJSON(w, p)
	case "yaml":
		err = writeYAML(w, p)
	default:
		err = writeText(w, p, l)
	}
	if err == nil && len(problems) > 0 {
		err = errShown
	}
	return err
}

func writeText(w io.Writer, p page, l looks) error {
	if !l.isColoured {
		return p.WriteText(control.Sheet{Writer: w, Columns: l.columns})
	}
	var text strings.Builder
	if err := p.WriteText(control.Sheet{Writer: termtext.NewWriter(&text), Columns: l.columns}); err != nil {
		return err
	}
	_, err := io.WriteString(termtext.Raw(w), colour(text.String()))
	return err
}

// sizeOf is the size of a terminal; zero: it does not say.
func sizeOf(w io.Writer) (size unix.Winsize, isTerminal bool) {
	file, ok := termtext.Raw(w).(*os.File)
	if !ok {
		return size, false
	}
	told, err := unix.IoctlGetWinsize(int(file.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return size, false
	}
	return *told, true
}

const (
	red   = "\x1b[31m"
	plain = "\x1b[0m"
)

// colour has a page show in red what is to be mended.
func colour(text string) string {
	words := strings.NewReplacer("DOWN", red+"DOWN"+plain, "FAILS", red+"FAILS"+plain, "NOT ready", red+"NOT ready"+plain, "[FAIL]", red+"[FAIL]"+plain)
	var out strings.Builder
	for line := range strings.Lines(text) {
		if problem, ok := strings.CutSuffix(line, "\n"); ok && strings.HasPrefix(problem, "! ") {
			out.WriteString(red + problem + plain + "\n")
		} else {
			out.WriteString(words.Replace(line))
		}
	}
	return out.String()
}

func writeJSON(w io.Writer, value any) error {
	text, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(w, quiet(text, jsonRune))
	return err
}

// writeOne writes one of many values that a program reads as they come: JSON in one line, or a document of YAML. With another output it
// writes nothing.
func writeOne(w io.Writer, value any, output string) error {
	switch output {
	case "json":
		text, err := json.Marshal(value)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(w, quiet(text, jsonRune))
		return err
	case "yaml":
		if _, err := io.WriteString(w, "---\n"); err != nil {
			return err
		}
		return writeYAML(w, value)
	}
	return nil
}

// jsonRune escapes what has more than 16 bits.
func jsonRune(r rune) string {
	high, low := utf16.EncodeRune(r)
	return fmt.Sprintf(`\u%04x\u%04x`, high, low)
}

// quiet escapes in JSON what the standard library leaves as it is, and a terminal may take for a command, or YAML refuses:
// DEL, the controls beyond ASCII, and what turns the direction of writing. None of that is outside of strings. What has more
// than 16 bits JSON and YAML write differently.
func quiet(text []byte, beyond16 func(r rune) string) string {
	var out strings.Builder
	for _, r := range string(text) {
		switch {
		case r < 0x7f || unicode.IsPrint(r):
			out.WriteRune(r)
		case r > 0xffff:
			out.WriteString(beyond16(r))
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	return out.String()
}

// writeYAML prints the JSON of a value in YAML's words, with its keys in their order.
func writeYAML(w io.Writer, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	wide := func(r rune) string { return fmt.Sprintf(`\U%08x`, r) }
	var document yaml.Node
	if err := yaml.Unmarshal([]byte(quiet(text, wide)), &document); err != nil { // but for wide JSON is YAML
		return err
	}
	setBlockStyle(&document)
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := errors.Join(encoder.Encode(&document), encoder.Close()); err != nil {
		return err
	}
	_, err = io.WriteString(w, quiet(out.Bytes(), wide))
	return err
}

// setBlockStyle undoes JSON's brackets and quotes. The encoder quotes a text that would read as something else; one with
// what quiet escapes must be in double quotes.
func setBlockStyle(node *yaml.Node) {
	node.Style = 0
	if node.Kind == yaml.ScalarNode && strings.ContainsFunc(node.Value, func(r rune) bool { return r >= 0x7f && !unicode.IsPrint(r) }) {
		node.Style = yaml.DoubleQuotedStyle
	}
	for _, child := range node.Content {
		setBlockStyle(child)
	}
}

package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
	"gopkg.in/yaml.v3"

	"github.com/node-dns/node-dns/internal/sys/termtext"
)

// page is the output of a command: text for people, JSON for programs.
type page interface {
	WriteText(w io.Writer) error
}

// addOutputFlag adds the -o flag. The root command validates its value with checkOutput.
func addOutputFlag(cmd *cobra.Command) {
	cmd.Flags().StringP("output", "o", "text", "print in this `format`: text, json or yaml")
	// Fails only if the flag does not exist.
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"text", "json", "yaml"}, cobra.ShellCompDirectiveNoFileComp))
}

// outputOf returns the value of a command's -o flag, or "" if it has none.
func outputOf(cmd *cobra.Command) string {
	if flag := cmd.Flags().Lookup("output"); flag != nil {
		return flag.Value.String()
	}
	return ""
}

// checkOutput checks the value of the -o flag, if the command has one.
func checkOutput(cmd *cobra.Command, _ []string) error {
	flag := cmd.Flags().Lookup("output")
	if flag == nil || slices.Contains([]string{"text", "json", "yaml"}, flag.Value.String()) {
		return nil
	}
	return usageError{fmt.Errorf("-o %s: expected text, json or yaml", flag.Value)}
}

// show prints a page in the command's output format. It returns errShown if the page shows a
// problem.
func show(cmd *cobra.Command, p page, isProblem bool) error {
	out := cmd.OutOrStdout()
	return showOn(out, p, outputOf(cmd), isProblem, looksOf(out))
}

// shownIf returns errShown if the output shows a problem.
func shownIf(isProblem bool) error {
	if isProblem {
		return errShown
	}
	return nil
}

// looks are the display properties for text.
type looks struct {
	isColoured bool
	columns    int // width of the terminal; 0: not a terminal, or unknown
}

// looksOf returns the display properties of a command's output.
func looksOf(out io.Writer) looks {
	size, isTerminal := sizeOf(out)
	// Use colors only on terminals and if the user has not disabled them (no-color.org).
	return looks{isTerminal && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb", int(size.Col)}
}

// showOn is like show, but writes to w, which may be a part of the output.
func showOn(w io.Writer, p page, output string, isProblem bool, l looks) error {
	var err error
	switch output {
	case "json":
		err = writeJSON(w, p)
	case "yaml":
		err = writeYAML(w, p)
	default:
		err = writeText(w, p, l)
	}
	return cmp.Or(err, shownIf(isProblem))
}

func writeText(w io.Writer, p page, l looks) error {
	if !l.isColoured {
		return p.WriteText(termtext.Sheet{Writer: w, Columns: l.columns})
	}
	var text strings.Builder
	if err := p.WriteText(termtext.Sheet{Writer: termtext.NewWriter(&text), Columns: l.columns}); err != nil {
		return err
	}
	_, err := io.WriteString(termtext.Raw(w), color(text.String()))
	return err
}

// sizeOf returns the size of a terminal, or zero if unknown.
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

// color prints the problems in text in red.
func color(text string) string {
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
	_, err = fmt.Fprintln(w, termtext.JSON(text))
	return err
}

// writeOne writes one of several values that a program reads as they arrive: one line of JSON, or a
// YAML document. It writes nothing for other output formats.
func writeOne(w io.Writer, value any, output string) error {
	switch output {
	case "json":
		text, err := json.Marshal(value)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(w, termtext.JSON(text))
		return err
	case "yaml":
		if _, err := io.WriteString(w, "---\n"); err != nil {
			return err
		}
		return writeYAML(w, value)
	}
	return nil
}

// writeYAML converts the JSON of a value to YAML with its keys in the same order.
func writeYAML(w io.Writer, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	var document yaml.Node
	if err := yaml.Unmarshal([]byte(termtext.YAML(text)), &document); err != nil { // JSON is YAML, except for these escapes
		return err
	}
	setBlockStyle(&document)
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := errors.Join(encoder.Encode(&document), encoder.Close()); err != nil {
		return err
	}
	_, err = io.WriteString(w, termtext.YAML(out.Bytes()))
	return err
}

// setBlockStyle removes JSON's brackets and quotes. The encoder quotes text that would otherwise be
// read as another type. Text with characters that termtext.YAML escapes needs double quotes.
func setBlockStyle(node *yaml.Node) {
	node.Style = 0
	if node.Kind == yaml.ScalarNode && strings.ContainsFunc(node.Value, func(r rune) bool { return r >= 0x7f && !unicode.IsPrint(r) }) {
		node.Style = yaml.DoubleQuotedStyle
	}
	for _, child := range node.Content {
		setBlockStyle(child)
	}
}

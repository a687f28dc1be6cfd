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

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
	"gopkg.in/yaml.v3"

	"github.com/node-dns/node-dns/internal/sys/termtext"
)

// page is the output of a command: text for people, JSON for programs.
type page interface {
	WriteText(w io.Writer) error
}

// addOutputFlag adds the -o flag. checkOutput validates its value.
func addOutputFlag(cmd *cobra.Command, output *string) {
	cmd.Flags().StringVarP(output, "output", "o", "text", "print in this `format`: text, json or yaml")
	// Fails only if the flag does not exist.
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"text", "json", "yaml"}, cobra.ShellCompDirectiveNoFileComp))
}

func checkOutput(output string) error {
	switch output {
	case "text", "json", "yaml":
		return nil
	}
	return usageError{fmt.Errorf("-o %s: expected text, json or yaml", output)}
}

// rootToShow is rootOf for a command with the -o flag, whose value it checks.
func rootToShow(cmd *cobra.Command, output string) (string, error) {
	if err := checkOutput(output); err != nil {
		return "", err
	}
	return rootOf(cmd)
}

// show prints a page in the output format. It returns errShown if problems is not empty.
func show(cmd *cobra.Command, p page, output string, problems []string) error {
	out := cmd.OutOrStdout()
	return showOn(out, p, output, problems, looksOf(out))
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

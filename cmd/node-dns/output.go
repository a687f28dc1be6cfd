package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf16"

	"github.com/spf13/cobra"
	"gopkg.in/yaml.v3"
)

// screen is what a command shows: to people as text, to programs as its JSON.
type screen interface {
	WriteText(w io.Writer) error
}

// addOutputFlag adds -o, which checkOutput knows the words of.
func addOutputFlag(cmd *cobra.Command, output *string) {
	cmd.Flags().StringVarP(output, "output", "o", "text", "text, json or yaml")
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

// show prints a screen in the form that -o names. Problems that are in it make it errShown.
func show(cmd *cobra.Command, s screen, output string, problems []string) error {
	var err error
	switch out := cmd.OutOrStdout(); output {
	case "json":
		err = writeJSON(out, s)
	case "yaml":
		err = writeYAML(out, s)
	default:
		err = s.WriteText(out)
	}
	if err == nil && len(problems) > 0 {
		err = errShown
	}
	return err
}

func writeJSON(w io.Writer, value any) error {
	text, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(w, quiet(text, jsonRune))
	return err
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

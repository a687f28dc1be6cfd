package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/node-dns/node-dns/internal/nodeconfig"
)

// didYouMean returns a suffix for an error about an unknown word: a suggestion, or "" if no name is
// similar.
func didYouMean(word string, names []string) string {
	if name := nodeconfig.Likely(word, names); name != "" {
		return fmt.Sprintf("; did you mean %q?", name)
	}
	return ""
}

// noArguments is the argument check for commands without arguments. An argument of a command with
// subcommands is an unknown command.
func noArguments(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case cmd.HasSubCommands():
		return usageError{unknownCommand(cmd, args[0])}
	}
	return usageError{fmt.Errorf("%s takes no arguments, got %q", wordsOf(cmd), args[0])}
}

// unknownCommand returns an error that suggests a similar command, including one further down: for
// "flush", "cache flush".
func unknownCommand(cmd *cobra.Command, word string) error {
	for level := cmd.Commands(); len(level) > 0; {
		var names []string
		var below []*cobra.Command
		paths := map[string]string{}
		for _, child := range level {
			if !child.Hidden {
				names = append(names, child.Name())
				paths[child.Name()] = child.CommandPath()
				below = append(below, child.Commands()...)
			}
		}
		if name := nodeconfig.Likely(word, names); name != "" {
			return fmt.Errorf("unknown command %q; did you mean %q?", word, paths[name])
		}
		level = below
	}
	return fmt.Errorf("unknown command %q", word)
}

// flagFault returns a readable error about a flag.
func flagFault(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var missing *pflag.ValueRequiredError
	var invalid *pflag.InvalidValueError
	words := cmd.Flags().Args() // arguments before the flag
	switch {
	case cmd.HasSubCommands() && len(words) > 0:
		return usageError{unknownCommand(cmd, words[0])} // the flag may belong to it
	case errors.As(err, &unknown):
		return usageError{unknownFlag(cmd, unknown)}
	case errors.As(err, &missing):
		return usageError{fmt.Errorf("%s: expected a value", spelling(missing.GetFlag()))}
	case errors.As(err, &invalid):
		expected := invalid.Unwrap()
		switch invalid.GetFlag().Value.Type() { // types whose errors use Go's terms
		case "int":
			expected = errors.New("expected a number")
		case "bool":
			expected = errors.New("expected true or false")
		}
		return usageError{fmt.Errorf("%s %q: %w", spelling(invalid.GetFlag()), invalid.GetValue(), expected)}
	}
	return usageError{err}
}

// unknownFlag returns an error that suggests a similar flag, including "--brief" for "-brief".
func unknownFlag(cmd *cobra.Command, unknown *pflag.NotExistError) error {
	written, word := "--"+unknown.GetSpecifiedName(), unknown.GetSpecifiedName()
	if letters := unknown.GetSpecifiedShortnames(); letters != "" {
		written, word = "-"+letters, letters
	}
	var names []string
	cmd.Flags().VisitAll(func(flag *pflag.Flag) {
		if !flag.Hidden {
			names = append(names, "--"+flag.Name)
		}
	})
	slices.Sort(names)
	if len(word) > 1 {
		return fmt.Errorf("unknown flag %s%s", written, didYouMean("--"+word, names))
	}
	return fmt.Errorf("unknown flag %s", written)
}

// spelling returns a flag as written on the command line.
func spelling(flag *pflag.Flag) string {
	if flag.Shorthand != "" {
		return "-" + flag.Shorthand
	}
	return "--" + flag.Name
}

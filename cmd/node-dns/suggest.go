package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/node-dns/node-dns/internal/nodeconfig"
)

// didYouMean returns the end of an error about an unknown word: the name that it is likely a typo of, or "".
func didYouMean(word string, names []string) string {
	if name := nodeconfig.Likely(word, names); name != "" {
		return fmt.Sprintf("; did you mean %q?", name)
	}
	return ""
}

// noArguments is for a command that takes none. A word behind one that has commands below it is an unknown command.
func noArguments(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case cmd.HasSubCommands():
		return usageError{unknownCommand(cmd, args[0])}
	}
	return usageError{fmt.Errorf("%s takes no argument, and got %q", wordsOf(cmd), args[0])}
}

// unknownCommand names the command that was likely meant; one further down if none here is like it: "flush" is "cache flush".
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

// flagFault says what is wrong with a flag.
func flagFault(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var missing *pflag.ValueRequiredError
	var invalid *pflag.InvalidValueError
	words := cmd.Flags().Args() // those before the flag
	switch {
	case cmd.HasSubCommands() && len(words) > 0:
		return usageError{unknownCommand(cmd, words[0])} // whose flag it may be
	case errors.As(err, &unknown):
		return usageError{unknownFlag(cmd, unknown)}
	case errors.As(err, &missing):
		return usageError{fmt.Errorf("%s: expected a value", spelling(missing.GetFlag()))}
	case errors.As(err, &invalid):
		expected := invalid.Unwrap()
		switch invalid.GetFlag().Value.Type() { // whose faults are told in Go's words
		case "int":
			expected = errors.New("expected a number")
		case "bool":
			expected = errors.New("expected true or false")
		}
		return usageError{fmt.Errorf("%s %q: %w", spelling(invalid.GetFlag()), invalid.GetValue(), expected)}
	}
	return usageError{err}
}

// unknownFlag names the flag that was likely meant, also where "-brief" was written for "--brief".
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

// spelling is a flag as it is written on the command line.
func spelling(flag *pflag.Flag) string {
	if flag.Shorthand != "" {
		return "-" + flag.Shorthand
	}
	return "--" + flag.Name
}

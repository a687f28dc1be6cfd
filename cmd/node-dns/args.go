package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// wordsOf are the words that name a command, behind that of the program.
func wordsOf(cmd *cobra.Command) string {
	return strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" ")
}

// atMostOneName is for what is about a name, or about what a flag says.
func atMostOneName(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return usageError{fmt.Errorf("%s: expected one name, not %d", wordsOf(cmd), len(args))}
	}
	return nil
}

// oneName is for what is about a name alone.
func oneName(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return usageError{fmt.Errorf("%s: expected a name", wordsOf(cmd))}
	}
	return atMostOneName(cmd, args)
}

// atMostOneOf is for one of a command's ValidArgs, which may be left out; expected says them in words.
func atMostOneOf(expected string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > 1 || cobra.OnlyValidArgs(cmd, args) != nil {
			return usageError{fmt.Errorf("%s %s: expected %s", wordsOf(cmd), strings.Join(args, " "), expected)}
		}
		return nil
	}
}

// addCobrasCommands adds help and completion, as cobra would when the root runs, and has what they do not know be a usage error:
// cobra shows a summary then, and exits 0.
func addCobrasCommands(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		switch cmd.Name() {
		case "help":
			cmd.Run, cmd.RunE = nil, showHelp
		case "completion":
			cmd.Args = noArguments
			cmd.RunE = func(*cobra.Command, []string) error {
				return usageError{errors.New("completion: expected bash, fish, powershell or zsh")}
			}
			for _, shell := range cmd.Commands() {
				shell.Args = noArguments
			}
		}
	}
}

// showHelp shows the summary of the command that args lead to; none: of node-dns.
func showHelp(help *cobra.Command, args []string) error {
	cmd, rest, err := help.Root().Find(args)
	switch {
	case err != nil:
		return usageError{err}
	case len(rest) > 0:
		return usageError{unknownCommand(cmd, rest[0])}
	}
	cmd.InitDefaultHelpFlag() // which the summary has
	return cmd.Help()
}

package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// wordsOf returns the words of a command without the program name.
func wordsOf(cmd *cobra.Command) string {
	return strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" ")
}

// atMostOneName is the argument check for commands that take a name, or a flag instead.
func atMostOneName(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return usageError{fmt.Errorf("%s: expected one name, not %d", wordsOf(cmd), len(args))}
	}
	return nil
}

// oneName is the argument check for commands that require a name.
func oneName(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return usageError{fmt.Errorf("%s: expected a name", wordsOf(cmd))}
	}
	return atMostOneName(cmd, args)
}

// atMostOneOf is the argument check for an optional one of the command's ValidArgs. expected
// describes them.
func atMostOneOf(expected string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > 1 || cobra.OnlyValidArgs(cmd, args) != nil {
			return usageError{fmt.Errorf("%s %s: expected %s", wordsOf(cmd), strings.Join(args, " "), expected)}
		}
		return nil
	}
}

// addCobrasCommands adds help and completion, as cobra does when the root runs, and makes their
// unknown arguments usage errors. By default cobra shows a summary and exits with 0.
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

// showHelp shows the summary of the command in args, or that of node-dns if args is empty.
func showHelp(help *cobra.Command, args []string) error {
	cmd, rest, err := help.Root().Find(args)
	switch {
	case err != nil:
		return usageError{err}
	case len(rest) > 0:
		return usageError{unknownCommand(cmd, rest[0])}
	}
	cmd.InitDefaultHelpFlag() // the summary includes the flag
	return cmd.Help()
}

package main

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/node-dns/node-dns/internal/admin/control"
)

// completeTimeout is the time that a shell waits for words from the daemon. Without an answer, it
// completes nothing and prints no error.
const completeTimeout = 300 * time.Millisecond

// recordTypes are the types offered for completion. All other types are accepted too.
var recordTypes = []string{"A", "AAAA", "ANY", "CAA", "CNAME", "DNSKEY", "DS", "HTTPS", "MX", "NAPTR", "NS", "PTR", "SOA", "SRV", "SVCB", "TLSA", "TXT"}

// completions are the words for flags by name. A flag name means the same in each command.
var completions = map[string]cobra.CompletionFunc{
	"namespace": namespaces,
	"pod":       pods,
	"as":        clients,
	"name":      cachedNames,
	"zone":      cachedNames,
	"type":      types,
	"rcode":     rcodes,
	"for":       cobra.FixedCompletions([]string{"ready"}, cobra.ShellCompDirectiveNoFileComp),
	"root":      cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs),
	"config":    cobra.FixedCompletions([]string{"yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt),
}

// argumentCompletions are the words for arguments, by command without the program name.
var argumentCompletions = map[string]cobra.CompletionFunc{
	"query":       queryWords,
	"explain":     firstWord(cachedNames),
	"cache dump":  firstWord(cachedNames),
	"cache flush": firstWord(cachedNames),
}

// addCompletions adds shell completion to every command and flag below cmd. Without it, the shell
// would offer files.
func addCompletions(cmd *cobra.Command) {
	if words, ok := argumentCompletions[wordsOf(cmd)]; ok {
		cmd.ValidArgsFunction = words
	} else if cmd.ValidArgs == nil && cmd.ValidArgsFunction == nil {
		cmd.ValidArgsFunction = cobra.NoFileCompletions
	}
	add := func(flag *pflag.Flag) {
		words, ok := completions[flag.Name]
		if !ok {
			words = cobra.NoFileCompletions
		}
		if _, has := cmd.GetFlagCompletionFunc(flag.Name); !has {
			_ = cmd.RegisterFlagCompletionFunc(flag.Name, words) // fails only for a flag that does not exist
		}
	}
	cmd.LocalFlags().VisitAll(add)
	cmd.PersistentFlags().VisitAll(add)
	for _, child := range cmd.Commands() {
		addCompletions(child)
	}
}

// firstWord completes only the first argument.
func firstWord(words cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return words(cmd, args, typed)
	}
}

// queryWords completes names, then types, and nameservers in use after an @.
func queryWords(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	switch {
	case strings.HasPrefix(typed, "@"):
		return servers(cmd)
	case len(args) > 0:
		return types(cmd, args, typed)
	}
	return cachedNames(cmd, args, typed)
}

func types(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	return inCaseOf(typed, recordTypes), cobra.ShellCompDirectiveNoFileComp
}

func rcodes(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	return inCaseOf(typed, slices.Sorted(maps.Keys(dns.StringToRcode))), cobra.ShellCompDirectiveNoFileComp
}

// inCaseOf converts words to lower case if typed is in lower case, because a shell drops words that
// do not begin with what was typed.
func inCaseOf(typed string, words []string) []string {
	if typed == "" || typed != strings.ToLower(typed) {
		return words
	}
	lower := slices.Clone(words)
	for i := range lower {
		lower[i] = strings.ToLower(lower[i])
	}
	return lower
}

func namespaces(cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	return fromDaemon(cmd, control.CompleteQuestion{Kind: control.CompleteNamespace, Prefix: typed})
}

func pods(cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	question := control.CompleteQuestion{Kind: control.CompletePod, Prefix: typed}
	if flag := cmd.Flags().Lookup("namespace"); flag != nil {
		question.Namespace = flag.Value.String()
	}
	return fromDaemon(cmd, question)
}

// clients completes pods as NAMESPACE/NAME, with --namespace only those of that namespace.
func clients(cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	if namespace := cmd.Flags().Lookup("namespace").Value.String(); namespace != "" && strings.HasPrefix(namespace+"/", typed) {
		typed = namespace + "/"
	} else if namespace != "" && !strings.HasPrefix(typed, namespace+"/") {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return fromDaemon(cmd, control.CompleteQuestion{Kind: control.CompletePod, Prefix: typed})
}

func cachedNames(cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	return fromDaemon(cmd, control.CompleteQuestion{Kind: control.CompleteCachedName, Prefix: typed})
}

// fromDaemon fetches words from the daemon. It returns none if the daemon does not answer in time
// or rejects this user.
func fromDaemon(cmd *cobra.Command, question control.CompleteQuestion) ([]string, cobra.ShellCompDirective) {
	answer, err := askBriefly(cmd, func(ctx context.Context, path string) (control.Completions, error) {
		return control.FetchCompletions(ctx, path, question)
	})
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return safeWords(answer.Words), cobra.ShellCompDirectiveNoFileComp
}

// servers returns the nameservers in use, in the form that query accepts.
func servers(cmd *cobra.Command) ([]string, cobra.ShellCompDirective) {
	status, err := askBriefly(cmd, control.FetchStatus)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var words []string
	for _, route := range status.Routes {
		for _, server := range route.Servers {
			words = append(words, "@"+server.Address)
		}
	}
	slices.Sort(words)
	return safeWords(slices.Compact(words)), cobra.ShellCompDirectiveNoFileComp
}

// askBriefly queries the daemon with the timeout for completion.
func askBriefly[A any](cmd *cobra.Command, fetch func(ctx context.Context, path string) (A, error)) (answer A, err error) {
	root, err := rootOf(cmd)
	if err != nil {
		return answer, err
	}
	ctx := cmd.Context()
	if ctx == nil { // cobra completes a command that was not run
		ctx = context.Background()
	}
	ctx, cancel := context.WithTimeout(ctx, completeTimeout)
	defer cancel()
	return fetch(ctx, control.SocketPath(root))
}

// safeWords returns the words without special meaning to a shell. Clients choose which names are
// cached, and bash's compgen -W expands $(command).
func safeWords(words []string) []string {
	return slices.DeleteFunc(words, func(word string) bool {
		return word == "" || word[0] == '-' || strings.Trim(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_/:@+#[]") != ""
	})
}

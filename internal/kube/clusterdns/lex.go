package clusterdns

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/coredns/caddy/caddyfile"
)

// A token is a word of a Corefile.
type token struct {
	text    string
	file    string // the Where without the line
	line    int    // from 1
	isFirst bool   // of its line
}

func (t token) where() string { return fmt.Sprintf("%s:%d", t.file, t.line) }

// hasEnv reports whether CoreDNS replaces a part of the word by an environment variable of its Pod.
func (t token) hasEnv() bool { return strings.Contains(t.text, "{$") || strings.Contains(t.text, "{%") }

// lex splits text into words. It uses only caddyfile's lexer: its parser opens files and reads
// environment variables.
func lex(file, text string) []token {
	var tokens []token
	end := 0 // line on which the previous word ends
	words := caddyfile.NewDispenser("", strings.NewReader(text))
	for words.Next() {
		t := token{text: words.Val(), file: file, line: words.Line()}
		t.isFirst = t.line > end
		end = t.line + strings.Count(t.text, "\n")
		tokens = append(tokens, t)
	}
	return tokens
}

// custom is the ConfigMap coredns-custom, whose keys a Corefile imports as files.
type custom struct {
	object Object
	keys   []string // sorted
	lexed  map[string][]token
	used   map[string]bool
}

func newCustom(o Object) *custom {
	return &custom{object: o, keys: slices.Sorted(maps.Keys(o.Data)), lexed: map[string][]token{}, used: map[string]bool{}}
}

// reportUnused reports server blocks and directives that no Corefile imports.
func (c *custom) reportUnused(r *reader) {
	for _, key := range c.keys {
		if ext := path.Ext(key); !c.used[key] && (ext == ".server" || ext == ".override") {
			r.report(c.object.at(key), "no Corefile imports it")
		}
	}
}

func (c *custom) tokens(r *reader, key string) []token {
	c.used[key] = true
	tokens, ok := c.lexed[key]
	if !ok {
		tokens = lexValue(r, c.object, key)
		if at, fault := unbalanced(tokens); fault != "" {
			r.reportMalformed(c.object, at.where(), "%s; this key is not read", fault)
			r.keepUnknown(at.where())
			tokens = nil
		}
		c.lexed[key] = tokens
	}
	return tokens
}

// unbalanced returns the first "}" that closes nothing, or the last "{" that is not closed. Such a
// key would change the meaning of the text that imports it. fault is "" if there is no such brace.
func unbalanced(tokens []token) (at token, fault string) {
	var open []token
	for _, t := range tokens {
		switch {
		case t.text == "{":
			open = append(open, t)
		case t.text == "}" && len(open) == 0:
			return t, `unexpected "}"`
		case t.text == "}":
			open = open[:len(open)-1]
		}
	}
	if len(open) > 0 {
		return open[len(open)-1], `"{" without its closing "}"`
	}
	return token{}, ""
}

// lexValue is lex for a key of a ConfigMap.
func lexValue(r *reader, o Object, key string) []token {
	if len(o.Data[key]) > maxValue {
		r.reportMalformed(o, o.at(key), "it is longer than %d bytes", maxValue)
		r.keepUnknown(o.at(key))
		return nil
	}
	return lex(o.at(key), o.Data[key])
}

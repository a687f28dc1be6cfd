package clusterdns

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/coredns/caddy/caddyfile"
)

// The bounds of one Corefile with all that it imports.
const (
	maxTokens     = 500_000
	maxDirectives = 10_000
	maxImports    = 1_000
	maxDepth      = 20 // nested imports
	maxCustom     = 200
	maxKeys       = 256 // zones of a server block
	maxPattern    = 253 // bytes of an import; a key of a ConfigMap has as many at most
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

// lex splits a text into words. It uses only caddyfile's lexer: its parser opens files and reads
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

// tokens returns the words of a key.
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

// A directive is a plugin with its arguments and the lines of its block.
type directive struct {
	name  token
	args  []token
	lines [][]token
}

// A block is a server block.
type block struct {
	keys       []token
	directives []directive
}

// A frame is a text that is being read: the Corefile, or one that it imports.
type frame struct {
	name   string
	tokens []token
	next   int
}

// A parser reads the blocks of a Corefile.
type parser struct {
	*reader
	object     Object  // the ConfigMap with the Corefile
	custom     *custom // nil: there is none
	frames     []frame // the last one is read first
	snippets   map[string][]token
	tokens     int
	directives int
	imports    int
	stopped    bool // a bound is exceeded
	inBlock    bool // a server block is being read
}

// fail reports a syntax error at t. Server blocks after it, and their zones, may be misread.
func (p *parser) fail(t token, format string, args ...any) {
	o := p.object
	if p.custom != nil && t.file != o.at(corefileKey) {
		o = p.custom.object
	}
	p.reportMalformed(o, t.where(), format, args...)
	p.keepUnknown(t.where())
}

// failImport reports a text that cannot be imported. Outside of a server block, it may have server
// blocks.
func (p *parser) failImport(at token, format string, args ...any) {
	p.report(at.where(), format, args...)
	if !p.inBlock {
		p.keepUnknown(at.where())
	}
}

// stop ends the reading of the Corefile.
func (p *parser) stop(t token, limit int, what string) {
	if !p.stopped {
		p.fail(t, "the Corefile and its imports have more than %d %s; the rest is not read", limit, what)
	}
	p.stopped = true
}

// peek returns the next word. It is false at the end.
func (p *parser) peek() (token, bool) {
	for !p.stopped && len(p.frames) > 0 {
		top := &p.frames[len(p.frames)-1]
		if top.next < len(top.tokens) {
			return top.tokens[top.next], true
		}
		p.frames = p.frames[:len(p.frames)-1]
	}
	return token{}, false
}

// skip moves past the word that peek returned.
func (p *parser) skip() {
	top := &p.frames[len(p.frames)-1]
	if p.tokens++; p.tokens > maxTokens {
		p.stop(top.tokens[top.next], maxTokens, "words")
	}
	top.next++
}

// blocks returns all server blocks.
func (p *parser) blocks() []block {
	var blocks []block
	for {
		t, ok := p.peek()
		switch {
		case !ok:
			return blocks
		case t.isFirst && t.text == "import":
			p.readImport()
		case t.text == "}":
			p.skip()
			p.fail(t, `unexpected "}"; expected a server block`)
		default:
			p.inBlock = true
			if b, ok := p.readBlock(t); ok {
				blocks = append(blocks, b)
			}
			p.inBlock = false
		}
	}
}

// readBlock reads a server block, or a snippet, which it remembers.
func (p *parser) readBlock(start token) (block, bool) {
	b := block{keys: p.readKeys()}
	open, isOpen := p.peek()
	isOpen = isOpen && open.text == "{"
	if isOpen {
		p.skip()
	}
	if len(b.keys) == 1 && strings.HasPrefix(b.keys[0].text, "(") && strings.HasSuffix(b.keys[0].text, ")") {
		p.readSnippet(b.keys[0], isOpen)
		return block{}, false
	}
	if len(b.keys) == 0 {
		p.report(start.where(), "server block without a zone")
	}
	for {
		t, ok := p.peek()
		switch {
		case !ok && isOpen && !p.stopped:
			p.fail(start, `server block without its closing "}"`)
			return b, len(b.keys) > 0
		case !ok:
			return b, len(b.keys) > 0
		case t.text == "}":
			p.skip()
			if !isOpen {
				if start.file != t.file {
					t = start // an import without braces swallows what follows it
				}
				p.fail(t, `unexpected "}"; expected a plugin`)
			}
			return b, len(b.keys) > 0
		case t.text == "import":
			p.readImport()
		default:
			if d, ok := p.readDirective(); ok {
				b.directives = append(b.directives, d)
			}
		}
	}
}

// readKeys reads the words before "{". A comma at the end of a line continues the list.
func (p *parser) readKeys() []token {
	var keys []token
	for expectsKey := true; ; {
		t, ok := p.peek()
		if !ok || t.text == "{" || t.isFirst && !expectsKey {
			return keys
		}
		p.skip()
		t.text, expectsKey = strings.CutSuffix(t.text, ",")
		switch {
		case t.text == "":
		case len(keys) == maxKeys:
			p.report(t.where(), "a server block has more than %d zones", maxKeys)
			p.keepUnknown(t.where())
		default:
			keys = append(keys, t)
		}
	}
}

// readSnippet remembers the words of a snippet up to its "}". Its imports are followed where it is
// imported.
func (p *parser) readSnippet(name token, isOpen bool) {
	if !isOpen {
		p.fail(name, `snippet without "{"`)
		return
	}
	var body []token
	for depth := 1; ; {
		t, ok := p.peek()
		if !ok && !p.stopped {
			p.fail(name, `snippet without its closing "}"`)
		}
		if !ok {
			return
		}
		p.skip()
		switch t.text {
		case "{":
			depth++
		case "}":
			depth--
		}
		if depth == 0 {
			p.define(name, body)
			return
		}
		body = append(body, t)
	}
}

// define remembers a snippet.
func (p *parser) define(name token, body []token) {
	if _, ok := p.snippets[name.text]; ok {
		p.report(name.where(), "snippet %s is defined twice; the first one counts", quote(name.text))
		return
	}
	if len(body) > 0 {
		body[0].isFirst = true
	}
	p.snippets[name.text] = body
}

// readDirective reads a plugin. It is false if the text is malformed, which is reported.
func (p *parser) readDirective() (directive, bool) {
	name, _ := p.peek()
	p.skip()
	if p.directives++; p.directives > maxDirectives {
		p.stop(name, maxDirectives, "plugins")
		return directive{}, false
	}
	d := directive{name: name}
	depth, closed, startsLine := 0, false, false
	for {
		t, ok := p.peek()
		switch {
		case !ok && depth > 0:
			if !p.stopped {
				p.fail(name, `%s: its block has no closing "}"`, quote(name.text))
			}
			return d, false
		case !ok, depth == 0 && t.isFirst && (t.text != "{" || closed):
			return d, !p.stopped
		case depth == 0 && t.text == "}":
			p.fail(t, `%s: unexpected "}"; expected the end of the line`, quote(name.text))
			p.skipLine()
			return d, false
		case depth == 0 && closed:
			p.report(t.where(), `%s: unexpected %s; expected the end of the line`, quote(name.text), quote(t.text))
			p.keepUnknown(t.where())
			p.skipLine()
			return d, false
		case t.isFirst && t.text == "import":
			p.readImport()
			startsLine = true
			continue
		}
		p.skip()
		switch {
		case t.text == "{":
			depth++
		case t.text == "}":
			depth--
		}
		switch {
		case depth == 0 && t.text == "}":
			closed = true
		case depth == 0:
			d.args = append(d.args, t)
		case depth == 1 && t.text == "{":
			startsLine = true
		case startsLine || t.isFirst || len(d.lines) == 0:
			d.lines = append(d.lines, []token{t})
			startsLine = false
		default:
			last := len(d.lines) - 1
			d.lines[last] = append(d.lines[last], t)
		}
	}
}

// skipLine moves past the rest of a line. It leaves a text on the stack that ends there, for push.
func (p *parser) skipLine() {
	for !p.stopped && len(p.frames) > 0 {
		top := p.frames[len(p.frames)-1]
		if top.next == len(top.tokens) || top.tokens[top.next].isFirst || top.tokens[top.next].text == "}" {
			return
		}
		p.skip()
	}
}

// readImport puts what a line imports in its place.
func (p *parser) readImport() {
	at, _ := p.peek()
	p.skip()
	pattern, ok := p.peek()
	if !ok || pattern.isFirst {
		p.failImport(at, "import without a name; expected a snippet or a file")
		return
	}
	p.skip()
	p.skipLine()
	if !p.countImport(at) {
		return
	}
	switch body, isSnippet := p.snippets["("+pattern.text+")"]; {
	case isSnippet:
		p.push(at, frame{name: "(" + pattern.text + ")", tokens: body})
	case pattern.hasEnv():
		p.failImport(at, "import of %s: the environment of CoreDNS is not known", quote(pattern.text))
	default:
		p.importFiles(at, pattern.text)
	}
}

// importFiles imports the keys of coredns-custom that the base name of a pattern matches, whatever
// the directory is: the distributions mount that ConfigMap at different places.
func (p *parser) importFiles(at token, pattern string) {
	base := path.Base(pattern)
	if _, err := path.Match(base, ""); err != nil || len(base) > maxPattern {
		p.failImport(at, "import of %s: not a valid file name pattern", quote(pattern))
		return
	}
	var keys []string
	if p.custom != nil {
		if len(p.custom.keys) > maxCustom {
			p.failImport(at, "import of %s: %s has more than %d keys", quote(pattern), customObject, maxCustom)
			return
		}
		for _, key := range p.custom.keys {
			if ok, _ := path.Match(base, key); ok {
				keys = append(keys, key)
			}
		}
	}
	// CoreDNS ignores a pattern without a match. The distributions import from a directory "custom"
	// that may be empty.
	isOptional := strings.ContainsAny(base, "*?[") && path.Base(path.Dir(pattern)) == "custom"
	if len(keys) == 0 && !isOptional {
		p.failImport(at, "import of %s: it is no snippet, and no key of the ConfigMap %s", quote(pattern), customObject)
	}
	for _, key := range slices.Backward(keys) {
		if !p.countImport(at) {
			return
		}
		p.push(at, frame{name: key, tokens: p.custom.tokens(p.reader, key)})
	}
}

// countImport reports whether another import is within the bounds.
func (p *parser) countImport(at token) bool {
	if p.imports++; p.imports > maxImports {
		p.stop(at, maxImports, "imports")
	}
	return !p.stopped
}

// push makes f the text that is read next.
func (p *parser) push(at token, f frame) {
	isOpen := func(other frame) bool { return other.name == f.name && other.next > 0 }
	switch {
	case slices.ContainsFunc(p.frames, isOpen):
		p.failImport(at, "%s imports itself", quote(f.name))
	case len(f.tokens) == 0:
	case p.depth() >= maxDepth:
		p.failImport(at, "import of %s: more than %d nested imports", quote(f.name), maxDepth)
	default:
		p.frames = append(p.frames, f)
	}
}

// depth is the number of imports that are being read.
func (p *parser) depth() (depth int) {
	for _, f := range p.frames {
		if f.next > 0 {
			depth++
		}
	}
	return depth
}

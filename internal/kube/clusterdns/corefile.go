package clusterdns

import (
	"strings"
)

const (
	maxTokens     = 500_000
	maxDirectives = 10_000
	maxImports    = 1_000
	maxDepth      = 20 // nested imports
	maxCustom     = 200
	maxKeys       = 256 // zones of a server block
	maxPattern    = 253 // bytes of an import; also the maximum of a ConfigMap key
)

// A directive is a plugin with its arguments and the lines of its block.
type directive struct {
	name  token
	args  []token
	lines [][]token
}

type block struct {
	keys       []token
	directives []directive
}

// A frame is a file being read: the Corefile, or one that it imports.
type frame struct {
	name   string
	tokens []token
	next   int
}

type parser struct {
	*reader
	object     Object  // the ConfigMap with the Corefile
	custom     *custom // nil without coredns-custom
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

// failImport reports text that cannot be imported. Outside of a server block, it might contain
// server blocks.
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

// peek returns the next word, or false at the end.
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

// readBlock reads a server block or a snippet. It stores a snippet.
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

// readSnippet stores the words of a snippet up to its "}". Its imports are followed where the
// snippet is imported.
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

func (p *parser) define(name token, body []token) {
	if _, ok := p.snippets[name.text]; ok {
		p.report(name.where(), "snippet %s is defined twice; the first one is used", quote(name.text))
		return
	}
	if len(body) > 0 {
		body[0].isFirst = true
	}
	p.snippets[name.text] = body
}

// readDirective reads a plugin. If the text is malformed, it reports that and returns false.
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

// skipLine skips the rest of a line. A frame that ends there stays on the stack, for push.
func (p *parser) skipLine() {
	for !p.stopped && len(p.frames) > 0 {
		top := p.frames[len(p.frames)-1]
		if top.next == len(top.tokens) || top.tokens[top.next].isFirst || top.tokens[top.next].text == "}" {
			return
		}
		p.skip()
	}
}

package clusterdns

import (
	"path"
	"slices"
	"strings"
)

// readImport replaces an import by the imported text.
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
		p.failImport(at, "import of %s: the environment of CoreDNS is unknown", quote(pattern.text))
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
		p.failImport(at, "import of %s: no such snippet, and no such key in the ConfigMap %s", quote(pattern), customObject)
	}
	for _, key := range slices.Backward(keys) {
		if !p.countImport(at) {
			return
		}
		p.push(at, frame{name: key, tokens: p.custom.tokens(p.reader, key)})
	}
}

// countImport counts an import and reports whether the count is within the limits.
func (p *parser) countImport(at token) bool {
	if p.imports++; p.imports > maxImports {
		p.stop(at, maxImports, "imports")
	}
	return !p.stopped
}

// push makes f the next frame to read.
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

// depth returns the number of imports being read.
func (p *parser) depth() (depth int) {
	for _, f := range p.frames {
		if f.next > 0 {
			depth++
		}
	}
	return depth
}

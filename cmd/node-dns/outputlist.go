package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/sys/termtext"
)

// A listPrinter prints a list of any length in the output format, element by element: text one
// after the other, JSON and YAML inside a value with apiVersion and kind.
type listPrinter struct {
	w                 io.Writer
	output, kind, key string // key of the list in the value
	n                 int
}

// add prints an element.
func (p *listPrinter) add(s page) error {
	p.n++
	switch p.output {
	case "json":
		text, err := json.MarshalIndent(s, "    ", "  ")
		if err != nil {
			return err
		}
		before := ",\n    "
		if p.n == 1 {
			before = p.begin() + "\n    "
		}
		_, err = io.WriteString(p.w, before+termtext.JSON(text))
		return err
	case "yaml":
		var text bytes.Buffer
		if p.n == 1 {
			text.WriteString(p.begin() + "\n")
		}
		if err := writeYAML(&text, []page{s}); err != nil {
			return err
		}
		_, err := p.w.Write(text.Bytes())
		return err
	}
	return s.WriteText(p.w)
}

// end prints the text after the last element.
func (p *listPrinter) end() error {
	text := ""
	switch p.output {
	case "json":
		text = "\n  ]\n}\n"
		if p.n == 0 {
			text = p.begin() + "]\n}\n"
		}
	case "yaml":
		if p.n == 0 {
			text = p.begin() + " []\n"
		}
	}
	_, err := io.WriteString(p.w, text)
	return err
}

// fail ends a list that has begun, so that the error that follows is a separate document. It
// returns err.
func (p *listPrinter) fail(err error) error {
	if p.n > 0 {
		_ = p.end() // if it fails, so did the write behind err
	}
	return err
}

func (p *listPrinter) begin() string {
	if p.output == "yaml" {
		return fmt.Sprintf("apiVersion: %s\nkind: %s\n%s:", control.APIVersion, p.kind, p.key)
	}
	return fmt.Sprintf("{\n  %q: %q,\n  %q: %q,\n  %q: [", "apiVersion", control.APIVersion, "kind", p.kind, p.key)
}

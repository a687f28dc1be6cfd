package nodeconfig

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// maxFile bounds a configuration file, in bytes. Real files have 1 to 5 KB.
const maxFile = 1 << 20

// readDocument returns the top node of the only YAML document in data. It returns nil if there is
// none (an empty file, or only comments), and, with a fault, if data is not such a document.
func readDocument(data []byte, faults *faultList) *yaml.Node {
	if len(data) > maxFile {
		faults.add(1, 1, "", "a file of at most 1 MiB", "a larger one")
		return nil
	}
	if at := invalidUTF8(data); at >= 0 {
		line, column := position(data, at)
		faults.add(line, column, "", "text in UTF-8", fmt.Sprintf("the byte 0x%02x", data[at]))
		return nil
	}
	documents, err := decode(data)
	if err != nil {
		addSyntaxFault(data, err, faults)
		return nil
	}
	if len(documents) == 0 {
		return nil
	}
	if len(documents) > 1 {
		// OpenShift and the kubelet silently read only the first one.
		second := documents[1]
		faults.add(second.Line, second.Column, "", "one document", `a second one after "---"`)
	}
	return documents[0]
}

// decode returns the first two documents that are not empty. yaml.v3 is archived, and its parser
// still panics on unexpected events ("internal error: … (please report)"). These panics become
// errors.
func decode(data []byte) (documents []*yaml.Node, err error) {
	defer func() {
		if p := recover(); p != nil {
			documents, err = nil, fmt.Errorf("parsing YAML: %v", p)
		}
	}()
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	for len(documents) < 2 {
		var document yaml.Node
		switch err := decoder.Decode(&document); {
		case errors.Is(err, io.EOF):
			return documents, nil
		case err != nil:
			return nil, err
		}
		if len(document.Content) == 1 && !isNull(document.Content[0]) {
			documents = append(documents, document.Content[0])
		}
	}
	return documents, nil
}

// addSyntaxFault finds the place of a syntax error. yaml.v3 gives no column, and its line is often
// that of the enclosing block or the one before. But it parses from the front, so the shortest
// prefix with the same error ends at the offending character.
func addSyntaxFault(data []byte, err error, faults *faultList) {
	low, high := 0, len(data) // data[:high] has this error
	for high-low > 1 {
		middle := (low + high) / 2
		if _, e := decode(data[:middle]); e != nil && e.Error() == err.Error() {
			high = middle
		} else {
			low = middle
		}
	}
	at := max(high-1, 0)
	line, column := position(data, at)
	if at < len(data) && data[at] == '\t' {
		faults.add(line, column, "", "spaces to indent with", "a tab")
		return
	}
	faults.add(line, column, "", "valid YAML", Quote(syntaxMessage(err)))
}

// syntaxMessage returns yaml.v3's message without "yaml: line N: ".
func syntaxMessage(err error) string {
	message := strings.TrimPrefix(err.Error(), "yaml: ")
	if rest, ok := strings.CutPrefix(message, "line "); ok {
		if _, text, ok := strings.Cut(rest, ": "); ok {
			return text
		}
	}
	return message
}

func invalidUTF8(data []byte) int {
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return -1
}

// position returns line and column (in characters), both from 1. A byte order mark does not count.
func position(data []byte, at int) (line, column int) {
	before := data[:at]
	start := bytes.LastIndexByte(before, '\n') + 1
	if start == 0 {
		before = bytes.TrimPrefix(before, []byte("\ufeff"))
	}
	return bytes.Count(before, []byte("\n")) + 1, utf8.RuneCount(before[start:]) + 1
}

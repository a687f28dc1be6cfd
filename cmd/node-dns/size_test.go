package main

import (
	"os"
	"testing"

	"github.com/node-dns/node-dns/internal/test/lab"
)

// maxSize is in bytes, for one machine. The kernel maps what lies around each page that is used, so that most of the program
// is resident. What calls a method by a name that the linker cannot know, as text/template does, adds 3,400,000 bytes: the
// linker then keeps every exported method of every type (`go build -ldflags=-dumpdep`, <ReflectMethod>).
const maxSize = 21_000_000

func TestSize(t *testing.T) {
	program, remove := lab.Ship("./cmd/node-dns")
	defer remove()
	info, err := os.Stat(program)
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() >= maxSize {
		t.Errorf("the stripped program has %d bytes, want less than %d", info.Size(), maxSize)
	}
}

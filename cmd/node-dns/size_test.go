package main

import (
	"os"
	"testing"

	"github.com/node-dns/node-dns/internal/test/lab"
)

// maxSize is the limit in bytes for one architecture. The kernel maps the pages around each page
// that is used, so most of the program is resident. Code that calls a method by a name unknown to
// the linker, such as text/template, adds 3,400,000 bytes, because the linker then keeps every
// exported method of every type (`go build -ldflags=-dumpdep`, <ReflectMethod>).
const maxSize = 19_800_000

func TestSize(t *testing.T) {
	if testing.Short() {
		t.Skip("links the program once more")
	}
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

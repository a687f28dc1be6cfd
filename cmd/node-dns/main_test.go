package main

import (
	"context"
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"node-dns": func() {
			revision = "c0ffee-dirty" // Go records no repository in test binaries
			os.Exit(run(context.Background(), os.Args[1:]))
		},
	})
}

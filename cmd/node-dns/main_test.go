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
			revision = "c0ffee-dirty" // Go notes no repository in a test's program
			os.Exit(run(context.Background(), os.Args[1:]))
		},
	})
}

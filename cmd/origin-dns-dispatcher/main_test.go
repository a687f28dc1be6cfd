package main_test

import (
	"testing"

	"github.com/node-dns/node-dns/internal/test/lab"
)

func TestMain(m *testing.M) {
	lab.Main(m, lab.Build("./cmd/origin-dns-dispatcher"), lab.BuildRace("./cmd/node-dns"))
}

package migrate

import (
	"os"
	"testing"

	"github.com/node-dns/node-dns/internal/test/lab"
)

// TestMain overlaps the tests, which mostly wait for the disk (fsync(2)).
func TestMain(m *testing.M) {
	lab.Overlap(8)
	os.Exit(m.Run())
}

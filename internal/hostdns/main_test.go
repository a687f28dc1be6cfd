package hostdns

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain is also the process that TestLockOfKilledProcess kills.
func TestMain(m *testing.M) {
	if path := os.Getenv(holderEnv); path != "" {
		os.Exit(holdLock(path))
	}
	goleak.VerifyTestMain(m)
}

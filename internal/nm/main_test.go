package nm

import (
	"fmt"
	"io"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain is also the process that TestStoppedNetworkManager stops: a signal stops a whole
// process, but the test must continue.
func TestMain(m *testing.M) {
	if os.Getenv("NM_TEST_SERVICE") != "" {
		service, err := startService(simpleHost())
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println("ready")
		io.Copy(io.Discard, os.Stdin) // until the test closes it
		service.stop()
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

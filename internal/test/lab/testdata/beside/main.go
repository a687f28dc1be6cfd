// Command beside starts another program, prints its process id, and waits to be killed.
package main

import (
	"fmt"
	"os"

	"github.com/node-dns/node-dns/internal/test/lab"
)

func main() {
	p, err := lab.Beside(lab.Command{Argv: []string{"sleep", "1000"}})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(p.PID())
	select {}
}

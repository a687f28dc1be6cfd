// lookup COUNT NAME does with Go's resolver what lookup.c does with a C library's. Go tells no
// canonical name, so none is printed.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
)

func main() {
	if len(os.Args) != 3 {
		os.Exit(2)
	}
	count, name := os.Args[1], os.Args[2]
	n, err := strconv.Atoi(count)
	var addrs []netip.Addr
	for ; n > 0; n-- {
		addrs, err = net.DefaultResolver.LookupNetIP(context.Background(), "ip", strings.Replace(name, "%", strconv.Itoa(n), 1))
	}
	var failure *net.DNSError
	switch {
	case errors.As(err, &failure) && failure.IsNotFound:
		fmt.Println("none")
	case errors.As(err, &failure) && failure.IsTemporary:
		fmt.Println("again")
	case err != nil:
		fmt.Println(err)
	default:
		var texts []string
		for _, addr := range addrs {
			texts = append(texts, addr.Unmap().String())
		}
		slices.Sort(texts)
		fmt.Println(strings.Join(texts, " "))
	}
}

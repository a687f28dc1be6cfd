package nodedns_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// wallClock are the methods of time.Time that drop its monotonic reading. Their results jump when
// an admin sets the clock.
var wallClock = map[string]bool{
	"Unix": true, "UnixMilli": true, "UnixMicro": true, "UnixNano": true, "Round": true, "Truncate": true, "UTC": true, "Local": true, "In": true,
}

// wallClockUsers are the allowed uses, by file and method, with the reason.
var wallClockUsers = map[string]string{
	"internal/dns/cache/lifetime.go Truncate": "a time.Duration, which has no clock",
	"internal/dns/dnsserver/cookie.go Unix":   "the date of a cookie (RFC 9018 section 4.3): a client with an outdated cookie gets a new one with its answer",
	"internal/dns/zone/builder.go Unix":       "the serial of a SOA record, which is a date for people",
}

// TestNoWallClock: code that answers, caches or queries does not use the wall clock. TTLs, stale
// answers, deadlines, pauses and clients' credit use the monotonic clock, so that setting the clock
// has no effect.
func TestNoWallClock(t *testing.T) {
	used := map[string]bool{}
	for _, dir := range []string{
		"internal/dns/dnsserver", "internal/dns/cache", "internal/dns/forward", "internal/dns/exchange", "internal/dns/zone", "internal/resolve", "internal/sys/rawsock",
		"internal/dns/dnswire", "internal/policy",
	} {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", dir, len(files), err)
		}
		for _, path := range files {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			set := token.NewFileSet()
			file, err := parser.ParseFile(set, path, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok || len(call.Args) > 1 {
					return true
				}
				selector, ok := call.Fun.(*ast.SelectorExpr)
				if !ok || !wallClock[selector.Sel.Name] || isPackage(selector.X) {
					return true
				}
				place := path + " " + selector.Sel.Name
				if _, may := wallClockUsers[place]; !may {
					t.Errorf("%v: %s uses the wall clock", set.Position(call.Pos()), selector.Sel.Name)
				}
				used[place] = true
				return true
			})
		}
	}
	for place := range wallClockUsers {
		if !used[place] {
			t.Errorf("%s does not use the wall clock any more", place)
		}
	}
}

func isPackage(x ast.Expr) bool {
	return isNamed(x, "time")
}

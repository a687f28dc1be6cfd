package nspawn

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/node-dns/node-dns/internal/test/lab"
)

// notHere are commands of the Containerfile whose program this machine lacks.
var notHere = []string{"bootc container lint", "ostree container commit"}

// mount mounts the directory of the Containerfile at /context while a command runs.
const mount = "--mount=type=bind,target=/context "

// instruction is a line of a Containerfile(5).
type instruction struct {
	word string
	rest string
}

// readContainerfile parses the part of the format that contrib uses: comments, and one instruction
// per line.
func readContainerfile(t *testing.T, path string) (all []instruction) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		word, rest, _ := strings.Cut(line, " ")
		all = append(all, instruction{word, rest})
	}
	return all
}

// buildContainerfile executes a directory's Containerfile in a machine that is off.
func buildContainerfile(t *testing.T, c *lab.Container, context string) {
	t.Helper()
	for i, step := range readContainerfile(t, filepath.Join(context, "Containerfile")) {
		switch words := strings.Fields(step.rest); {
		case step.word == "FROM" && i == 0 && len(words) == 1:
		case step.word == "COPY" && len(words) == 2 && strings.HasSuffix(words[1], "/"):
			found, err := filepath.Glob(filepath.Join(context, words[0]))
			if err != nil || len(found) == 0 {
				t.Fatalf("%s %s: found %v, %v", step.word, step.rest, found, err)
			}
			for _, file := range found {
				c.CopyFile(words[1]+filepath.Base(file), file, 0o644)
			}
		case step.word == "RUN" && slices.Contains(notHere, step.rest):
		case step.word == "RUN" && strings.HasPrefix(step.rest, mount):
			at := c.Path("/context")
			if err := os.CopyFS(at, os.DirFS(context)); err != nil {
				t.Fatal(err)
			}
			c.Run("sh", "-c", strings.TrimPrefix(step.rest, mount))
			if err := os.RemoveAll(at); err != nil {
				t.Fatal(err)
			}
		case step.word == "RUN":
			c.Run("sh", "-c", step.rest)
		default:
			t.Fatalf("this test cannot do %s %s", step.word, step.rest)
		}
	}
}

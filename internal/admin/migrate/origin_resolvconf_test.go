package migrate

import (
	"os"
	"path/filepath"
	"testing"
)

// TestTakeFromOpenresolv: after migrate --undo the host had the search list from the time of
// migrate --apply, until an interface reported a new one.
func TestTakeFromOpenresolv(t *testing.T) {
	const before, since = "nameserver 192.0.2.1\n", "nameserver 192.0.2.2\n"
	redirects := "resolv_conf=" + resolvconfFile + "\n"
	for _, row := range []struct {
		name  string
		files map[string]string
		saved Saved
		conf  string // openresolv's configuration before the migration
		want  string
	}{
		{"written since", map[string]string{openresolvConf: redirects, resolvconfFile: since}, Saved{Path: libcFile, Kind: "file", Data: []byte(before)}, "", since},
		{"without a nameserver", map[string]string{openresolvConf: redirects, resolvconfFile: "search x.example\n"}, Saved{Path: libcFile, Kind: "file", Data: []byte(before)}, "", before},
		{"redirected by an admin", map[string]string{openresolvConf: redirects, resolvconfFile: since}, Saved{Path: libcFile, Kind: "file", Data: []byte(before)}, redirects, before},
		{"not written", map[string]string{openresolvConf: redirects}, Saved{Path: libcFile, Kind: "file", Data: []byte(before)}, "", before},
		{"not redirected yet", map[string]string{openresolvConf: "name_servers=192.0.2.9\n", resolvconfFile: since}, Saved{Path: libcFile, Kind: "file", Data: []byte(before)}, "", before},
		{"undone before", map[string]string{resolvconfFile: since}, Saved{Path: libcFile, Kind: "file", Data: []byte(before)}, "", before},
		{"a link", map[string]string{openresolvConf: redirects, resolvconfFile: since}, Saved{Path: libcFile, Kind: "link", Target: resolvconfFile}, "", ""},
		{"another file", map[string]string{openresolvConf: redirects, resolvconfFile: since}, Saved{Path: openresolvConf, Kind: "file", Data: []byte(before)}, "", before},
	} {
		t.Run(row.name, func(t *testing.T) {
			root := t.TempDir()
			for path, text := range row.files {
				path = filepath.Join(root, path)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			saved := []Saved{row.saved, {Path: openresolvConf, Kind: "file", Data: []byte(row.conf)}}
			takeFromOpenresolv(root, saved)
			if got := string(saved[0].Data); got != row.want {
				t.Errorf("got saved text %q, want %q", got, row.want)
			}
		})
	}
}

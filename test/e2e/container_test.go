package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/node-dns/node-dns/internal/test/lab"
)

// buildImage builds the image for this machine, and unpacks its only layer as a container runtime
// does.
func buildImage(t testing.TB) (root string) {
	t.Helper()
	lab.NeedPrograms(t, "go", "make", "dpkg-query", "tar", "uname")
	dist, layout, root := t.TempDir(), t.TempDir(), t.TempDir()
	build := exec.Command("sh", "-c", `./packaging/image/build "$(uname -m)"`)
	build.Dir, build.Env = product, append(os.Environ(), "VERSION=0", "REVISION=test", "DIST="+dist)
	unpack := func(into string, argv ...string) {
		argv = append([]string{"tar", "--extract", "--numeric-owner", "--xattrs", "--xattrs-include=*", "-C", into}, argv...)
		if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", argv, err, out)
		}
	}
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the image: %v\n%s", err, out)
	}
	unpack(layout, "--file="+filepath.Join(dist, "node-dns-0-oci.tar"))
	unpack(root, "--gzip", "--file="+layerOf(t, filepath.Join(layout, "blobs/sha256")))
	return root
}

// layerOf returns the only blob that is not JSON. test/image checks the layout.
func layerOf(t testing.TB, blobs string) string {
	t.Helper()
	var layers []string
	err := filepath.WalkDir(blobs, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if !json.Valid(data) {
			layers = append(layers, path)
		}
		return err
	})
	if err != nil || len(layers) != 1 {
		t.Fatalf("got the layers %q, %v, want one", layers, err)
	}
	return layers[0]
}

// mount is a directory or file of the node in a container.
type mount struct {
	from, to string
	readOnly bool
}

// container is a running container, made by crun as containerd makes it: with the image's files,
// the user, the capabilities and no_new_privs of its security context. It has the network of a node
// or of a pod. It has no seccomp profile and no limits.
type container struct {
	net     *netns
	id      string
	state   string // directory of crun
	process *lab.Process
}

// startContainer starts a container with the files in root. Its bundle is in dir.
func startContainer(net *netns, dir, id, root string, spec corev1.Container, env []string, mounts []mount) (*container, error) {
	bundle := filepath.Join(dir, id)
	config, err := json.Marshal(ociConfig(root, spec, env, mounts))
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(bundle, 0o700); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(bundle, "config.json"), config, 0o600); err != nil {
		return nil, err
	}
	c := &container{net: net, id: id, state: filepath.Join(dir, "crun")}
	// crun requires the unified hierarchy of control groups. All processes end with unshare.
	const script = `mount -t cgroup2 none /sys/fs/cgroup && exec "$@"`
	c.process, err = lab.Beside(lab.Command{Argv: net.argv(append([]string{
		"unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", script, "sh",
	}, c.crun("run", "--bundle", bundle, id)...))})
	return c, err
}

func (c *container) crun(argv ...string) []string {
	return append([]string{"crun", "--cgroup-manager=disabled", "--root", c.state}, argv...)
}

// beside runs crun in the namespaces of the crun that runs the container.
func (c *container) beside(ctx context.Context, argv ...string) error {
	unshare := c.process.PID()
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", unshare, unshare))
	if err != nil {
		return err
	}
	argv = append([]string{"nsenter", "--mount", "--pid", "--target=" + strings.TrimSpace(string(children)), "--"}, c.crun(argv...)...)
	if out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, bytes.TrimSpace(out))
	}
	return nil
}

// exec runs a program in the container, as an exec probe does.
func (c *container) exec(ctx context.Context, argv ...string) error {
	return c.beside(ctx, append([]string{"exec", c.id}, argv...)...)
}

// stop sends SIGTERM, and SIGKILL after the grace period. It calls meanwhile while it waits.
func (c *container) stop(grace time.Duration, meanwhile func()) {
	if err := c.beside(context.Background(), "kill", c.id, "TERM"); err == nil {
		lab.Poll(grace, func() bool {
			meanwhile()
			return !c.process.Running()
		})
	}
	c.process.Signal(syscall.SIGKILL)
	c.process.Stop()
}

type document map[string]any

// ociConfig returns config.json of the OCI runtime specification.
func ociConfig(root string, c corev1.Container, env []string, mounts []mount) document {
	all := []document{
		{"destination": "/proc", "type": "proc", "source": "proc"},
		{"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": []string{"nosuid", "mode=755"}},
		{"destination": "/sys", "type": "sysfs", "source": "sysfs", "options": []string{"ro"}},
	}
	for _, m := range mounts {
		options := []string{"rbind"}
		if m.readOnly {
			options = append(options, "ro")
		}
		all = append(all, document{"destination": m.to, "type": "bind", "source": m.from, "options": options})
	}
	s := c.SecurityContext
	var caps []string
	for _, name := range s.Capabilities.Add {
		caps = append(caps, "CAP_"+string(name))
	}
	argv := slices.Concat(c.Command, c.Args)
	if len(c.Command) == 0 {
		argv = append([]string{"/usr/sbin/node-dns"}, c.Args...) // the image's entrypoint
	}
	return document{
		"ociVersion": "1.0.0",
		"process": document{
			"user": document{"uid": *s.RunAsUser, "gid": *s.RunAsGroup}, "args": argv, "env": env, "cwd": "/",
			"noNewPrivileges": !*s.AllowPrivilegeEscalation,
			"capabilities":    document{"bounding": caps, "permitted": caps, "effective": caps},
			"rlimits":         []document{{"type": "RLIMIT_NOFILE", "soft": openFiles(), "hard": openFiles()}},
		},
		"root":   document{"path": root, "readonly": *s.ReadOnlyRootFilesystem},
		"mounts": all,
		"linux":  document{"namespaces": []document{{"type": "mount"}, {"type": "pid"}, {"type": "ipc"}}},
	}
}

// openFiles returns the largest limit that this machine allows.
func openFiles() uint64 {
	var limit unix.Rlimit
	unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) // cannot fail with these arguments
	return limit.Max
}

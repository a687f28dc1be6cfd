package lab

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// Deployment is what a machine of an image-based system boots (ostree(1), bootc(8)), by directories of the Lab: the image's /usr, which is
// read-only, an /etc of its own, and the machine's /var, which every deployment of the machine has.
type Deployment struct {
	Usr, Etc, Var string
}

// Deploy has the machine, which is off, boot this from now on. Of its own root only what lies elsewhere is left, read-only too.
// ConditionNeedsUpdate= counts (systemd.unit(5)).
func (c *Container) Deploy(d Deployment) { c.deployed = &d }

// options are what systemd-nspawn needs for it.
func (d *Deployment) options() []string {
	if d == nil {
		return nil
	}
	return []string{"--read-only", "--bind-ro=" + d.Usr + ":/usr", "--bind=" + d.Etc + ":/etc", "--bind=" + d.Var + ":/var"}
}

// path is where a file of a machine is that is off, whose own root is at root.
func (d *Deployment) path(root, path string) string {
	if d == nil {
		return root + path
	}
	for top, dir := range map[string]string{"/usr": d.Usr, "/etc": d.Etc, "/var": d.Var} {
		if rest, ok := strings.CutPrefix(path, top); ok && (rest == "" || rest[0] == '/') {
			return dir + rest
		}
	}
	return root + path
}

// enterOff is the command that runs one in the root of a machine that is off.
func (c *Container) enterOff(argv []string) []string {
	return slices.Concat([]string{
		"sh", "-c", inCgroup, c.cgroup,
		"--quiet", "--directory=" + c.root, "--as-pid2", "--pipe", "--register=no", "--keep-unit",
		"--private-network", "--resolv-conf=off", "--timezone=off",
	}, c.deployed.options(), []string{"--"}, argv)
}

// Own lists what lies below this directory of a machine that is off and is not, or is otherwise, in the root that it is made of.
func (c *Container) Own(dir string) (all []string) {
	c.l.t.Helper()
	upper := filepath.Join(c.dir, "upper")
	err := filepath.WalkDir(upper+dir, func(path string, _ fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		all = append(all, strings.TrimPrefix(path, upper))
		return err
	})
	if err != nil {
		c.l.t.Fatal(err)
	}
	return all
}

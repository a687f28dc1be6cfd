package lab

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// Deployment is what a machine of an image-based system boots (ostree(1), bootc(8)), as directories
// of the Lab: the read-only /usr of the image, its own /etc, and the /var that all deployments of
// the machine share.
type Deployment struct {
	Usr, Etc, Var string
}

// Deploy makes the machine, which must be off, boot d from now on. It uses only the other
// directories of its own root, and mounts them read-only too. ConditionNeedsUpdate= works as on
// such systems (systemd.unit(5)).
func (c *Container) Deploy(d Deployment) { c.deployed = &d }

// options returns the options of systemd-nspawn for the deployment.
func (d *Deployment) options() []string {
	if d == nil {
		return nil
	}
	return []string{"--read-only", "--bind-ro=" + d.Usr + ":/usr", "--bind=" + d.Etc + ":/etc", "--bind=" + d.Var + ":/var"}
}

// path returns the location of a file of a machine that is off and whose own root is at root.
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

// enterOff returns the command that runs argv in the root of a machine that is off.
func (c *Container) enterOff(argv []string) []string {
	return slices.Concat([]string{
		"sh", "-c", inCgroup, c.cgroup,
		"--quiet", "--directory=" + c.root, "--as-pid2", "--pipe", "--register=no", "--keep-unit",
		"--private-network", "--resolv-conf=off", "--timezone=off",
	}, c.deployed.options(), []string{"--"}, argv)
}

// Own lists files below dir, in a machine that is off, that are missing or different in the root
// that it is based on.
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

package main

import (
	"encoding/binary"
	"slices"
	"strings"
)

// nodeDNS is the ID of the user and group node-dns in the image. sysusers.d(5) gives the RPM's user
// any free ID, but an image needs a fixed one for volumes and for Kubernetes' runAsUser. 65532 is
// the ID that distroless images use for a user without rights.
const nodeDNS = 65532

// daemon is the program that must bind port 53.
const daemon = "usr/sbin/node-dns"

// directories of the image besides the parents of its files.
var directories = []entry{
	{name: "etc/node-dns/", mode: 0o755},
	{name: "run/node-dns/", mode: 0o755, owner: nodeDNS},
	{name: "run/node-dns-intercept/", mode: 0o755, owner: nodeDNS},
	{name: "var/cache/node-dns/", mode: 0o750, owner: nodeDNS},
}

// content returns all entries of the layer: the files with their parents, the directories and the
// users.
//
// The daemon gets the file capability cap_net_bind_service=ep. The image's user is not root, and
// for such a user Kubernetes' capabilities.add is not enough: the runtime sets no ambient
// capabilities, so execve(2) would drop it. With the file capability, the kernel grants it if the
// bounding set has it, and otherwise refuses to execute the file.
func content(u users, files []entry) []entry {
	all := slices.Concat(files, directories, []entry{
		{name: "etc/passwd", mode: 0o644, data: []byte(u.passwd)},
		{name: "etc/group", mode: 0o644, data: []byte(u.group)},
	})
	known := map[string]bool{}
	for i, e := range all {
		known[e.name] = true
		if e.name == daemon {
			all[i].capability = fileCapability(capNetBindService)
		}
	}
	for _, e := range slices.Clone(all) {
		for i, char := range strings.TrimSuffix(e.name, "/") {
			if parent := e.name[:i] + "/"; char == '/' && !known[parent] {
				known[parent] = true
				all = append(all, entry{name: parent, mode: 0o755})
			}
		}
	}
	return all
}

const capNetBindService = 10

// fileCapability returns a struct vfs_cap_data of revision 2 (linux/capability.h) that permits one
// capability below 32 and makes it effective.
func fileCapability(capability int) string {
	const revision2, effective = 0x02000000, 1
	data := make([]byte, 20) // magic, then permitted and inheritable, of capabilities below 32 and from 32 on
	binary.LittleEndian.PutUint32(data, revision2|effective)
	binary.LittleEndian.PutUint32(data[4:], 1<<capability)
	return string(data)
}

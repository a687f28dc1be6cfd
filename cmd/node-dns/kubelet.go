package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/hostdns"
	"github.com/node-dns/node-dns/internal/nodeconfig"
	"github.com/node-dns/node-dns/internal/resolvconf"
	"github.com/node-dns/node-dns/internal/sys/procfs"
)

// kubeletTold returns the settings for pods' resolv.conf of the kubelet that runs below root, from
// its command line and the files named there. It returns nil if no kubelet is visible or it has no
// such settings.
func kubeletTold(root string) *control.KubeletTold {
	p, ok := procfs.Host(root, "kubelet")
	if !ok {
		return nil
	}
	flags, files := nodeconfig.KubeletFlagsOf(p), nodeconfig.KubeletFilesOf(root, p)
	says := files.Load()
	if says == nil && flags.IsEmpty() {
		return nil
	}
	told := nodeconfig.KubeletToldBy(p.PID, flags, files, says)
	out := &control.KubeletTold{
		PID: p.PID, DNS: told.DNS, DNSSource: told.DNSBy, Domain: told.Domain, DomainSource: told.DomainBy,
		ResolvConfSource: told.ResolvConfBy, ResolvConfSetting: told.SetBy,
	}
	if told.ResolvConfBy != "" {
		out.ResolvConf = readToldFile(root, told.ResolvConf)
	}
	if says != nil {
		out.Problems = problemsOf(says.Problems)
	}
	return out
}

// problemsOf returns the first problems, and the number of the others.
func problemsOf(problems []nodeconfig.KubeletProblem) []control.KubeletProblem {
	var all []control.KubeletProblem
	for i, problem := range problems {
		out := control.KubeletProblem{Text: bounded(problem.String())}
		more := len(problems) - i - 1
		if i == control.MaxKubeletProblems-1 && more > 0 {
			out.Text += fmt.Sprintf(" (and %d more)", more)
			return append(all, out)
		}
		if errors.Is(problem.Err, fs.ErrPermission) {
			out.Denied = bounded(problem.File)
		}
		all = append(all, out)
	}
	return all
}

// bounded truncates text but leaves space for the number of other problems.
func bounded(text string) string {
	const most = control.MaxKubeletProblem - 32
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

func readToldFile(root, path string) *control.ToldFile {
	file := &control.ToldFile{Path: path}
	if path == "" {
		return file
	}
	read := hostdns.ReadNamed(root, filepath.Join("/", root, path))
	switch {
	case read.Err != nil:
		file.Unread = read.Err.Error()
	case !read.Exists:
		file.Missing = true
	case len(read.Data) > control.MaxToldFile:
		file.Unread = fmt.Sprintf("longer than %d bytes", control.MaxToldFile)
	default:
		conf := resolvconf.Parse(read.Data)
		file.Nameservers, file.Search, file.Options = conf.Nameservers(), conf.SearchLine(), conf.Options()
		file.Ours = hostdns.IsOurs(read.Data)
	}
	return file
}

package cluster

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/node-dns/node-dns/internal/kube/clusterdns"
	"github.com/node-dns/node-dns/internal/sys/atomicfile"
)

// maxKeptSettings bounds the file, in bytes: five API objects of at most 1.5 MiB each, with escaped
// line ends.
const maxKeptSettings = 16 << 20

type keptSettings struct {
	Cluster string              `json:"cluster"`
	Objects []clusterdns.Object `json:"objects"`
}

// LoadSettings reads a file that Save wrote. It drops objects that are not settings. The error
// wraps fs.ErrNotExist if there is no file.
func LoadSettings(path string) (Settings, error) {
	switch info, err := os.Lstat(path); {
	case err != nil:
		return Settings{}, err
	case !info.Mode().IsRegular():
		return Settings{}, fmt.Errorf("%s is not a regular file: %w", path, fs.ErrInvalid)
	case info.Size() > maxKeptSettings:
		return Settings{}, fmt.Errorf("%s has %d bytes; the limit is %d", path, info.Size(), maxKeptSettings)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return Settings{}, err
	}
	var kept keptSettings
	if err := json.Unmarshal(data, &kept); err != nil {
		return Settings{}, fmt.Errorf("%s: %w", path, err)
	}
	kept.Objects = slices.DeleteFunc(kept.Objects, func(o clusterdns.Object) bool { return !IsSetting(o) })
	return Settings{Objects: kept.Objects, Cluster: kept.Cluster}, nil
}

// Save writes the settings, without the failures, for the next start.
func (s Settings) Save(path string) error {
	var data bytes.Buffer
	encoder := json.NewEncoder(&data)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(keptSettings{s.Cluster, s.Objects}); err != nil {
		return fmt.Errorf("writing the settings of the cluster's DNS: %w", err)
	}
	if data.Len() > maxKeptSettings {
		return fmt.Errorf("%s has %d bytes; the limit is %d", path, data.Len(), maxKeptSettings)
	}
	_, err := atomicfile.Writer{}.Write(path, data.Bytes(), 0o600)
	return err
}

// KeepGood replaces each object that has a syntax error by its version in before. CoreDNS and
// kube-dns also keep their last good version: a missing brace must not send the names of all stub
// domains to the site's nameservers.
func (s Settings) KeepGood(before []clusterdns.Object) Settings {
	s.Objects, s.Failed = slices.Clone(s.Objects), slices.Clone(s.Failed)
	for _, bad := range clusterdns.Read(s.Objects, nil, false).Malformed {
		is := func(o clusterdns.Object) bool {
			return o.Kind == bad.Kind && o.Namespace == bad.Namespace && o.Name == bad.Name
		}
		fault := fmt.Errorf("%s: %s", bad.Where, bad.Text)
		if i := slices.IndexFunc(before, is); i >= 0 {
			s.Objects[slices.IndexFunc(s.Objects, is)] = before[i]
			fault = fmt.Errorf("%w; its previous settings stay in use", fault)
		}
		s.Failed = append(s.Failed, fault)
	}
	return s
}

package nodeconfig

import "errors"

// kubeletKeys are the keys of a KubeletConfiguration that have to do with DNS. The kubelet itself skips an invalid
// clusterDNS with a line in its log; here it is a fault, or nobody would know why pods have no nameserver.
var kubeletKeys = []key[Config]{
	{name: KeyClusterDomain, read: readClusterDomain},
	{name: KeyClusterDNS, read: func(r *reader, v value, c *Config) {
		c.DNSIPs, _ = many(r, v, maxServers, asIP)
	}},
	// Against the directory of the file when relative: KubeletConfigurationPathRefs of kubernetes pkg/kubelet/apis/config.
	{name: KeyResolvConf, read: func(r *reader, v value, c *Config) {
		c.KubeletResolvConf = readPath(r, v)
	}},
}

// ResolvConfs are all values that a KubeletConfiguration, or the kubeletArguments of a node-config.yaml, have for the kubelet's
// resolvConf. Where a key is there twice, or the text is not one document of that form, it is an error.
func ResolvConfs(data []byte) ([]string, error) {
	documents, err := decode(data)
	if err != nil {
		return nil, err
	}
	if len(documents) != 1 {
		return nil, errors.New("expected one document")
	}
	var file struct {
		ResolvConf       *string `yaml:"resolvConf"`
		KubeletArguments struct {
			ResolvConf []string `yaml:"resolv-conf"`
		} `yaml:"kubeletArguments"`
	}
	if err := documents[0].Decode(&file); err != nil {
		return nil, err
	}
	if file.ResolvConf != nil {
		return append(file.KubeletArguments.ResolvConf, *file.ResolvConf), nil
	}
	return file.KubeletArguments.ResolvConf, nil
}

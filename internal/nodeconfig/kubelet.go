package nodeconfig

import "errors"

// kubeletKeys are the DNS keys of a KubeletConfiguration. The kubelet skips an invalid clusterDNS
// and only logs it. Here it is a fault, so that the admin learns why pods have no nameserver.
var kubeletKeys = []key[Config]{
	{name: KeyClusterDomain, read: readClusterDomain},
	{name: KeyClusterDNS, read: func(r *reader, v value, c *Config) { c.DNSIPs, _ = many(r, v, maxServers, asIP) }},
	// A relative path is relative to the directory of the file: KubeletConfigurationPathRefs of
	// kubernetes pkg/kubelet/apis/config.
	{name: KeyResolvConf, read: func(r *reader, v value, c *Config) { c.KubeletResolvConf = readPath(r, v) }},
}

// ResolvConfs returns all values for the kubelet's resolvConf in a KubeletConfiguration or in the
// kubeletArguments of a node-config.yaml. It fails if a key occurs twice, or if data is not a
// single document of that form.
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

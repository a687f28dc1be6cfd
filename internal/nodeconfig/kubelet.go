package nodeconfig

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

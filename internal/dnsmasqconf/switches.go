package dnsmasqconf

// Options are the switches that dnsmasq has in its files and over D-Bus. In the zero Options all
// are off.
type Options struct {
	FilterA      bool `json:"filterA,omitempty"`      // no A records in answers
	FilterAAAA   bool `json:"filterAAAA,omitempty"`   // no AAAA records in answers
	FilterWin2K  bool `json:"filterWin2K,omitempty"`  // do not forward Windows' frequent queries: SOA, SRV, ANY
	BogusPrivate bool `json:"bogusPrivate,omitempty"` // do not forward reverse lookups of private addresses
	Localise     bool `json:"localise,omitempty"`     // of a local name's addresses, return those on the client's network
}

// Words returns dnsmasq's names of the options that are on.
func (o Options) Words() []string {
	words := []string{}
	for _, option := range []struct {
		on   bool
		name string
	}{{o.FilterA, "filter-A"}, {o.FilterAAAA, "filter-AAAA"}, {o.FilterWin2K, "filterwin2k"}, {o.BogusPrivate, "bogus-priv"}, {o.Localise, "localise-queries"}} {
		if option.on {
			words = append(words, option.name)
		}
	}
	return words
}

package resolve

// order is the order in which handlers answer. To add a handler, write its functions in a file of
// its own and add an entry here.
var order = [...]handler{
	{name: "search lists of pods", handle: walkSearchList, continues: walksList},
	{name: "self", handle: serveSelf},
	{name: "localhost", handle: serveLocalhost, fast: stopAtLocalhost},
	{name: "domain-needed", handle: refusePlain, fast: stopAtPlain},
	{name: "special domains", handle: serveSpecial, fast: stopAtSpecial},
	{name: "local data", handle: serveLocalData, fast: stopAtLocalData},
	{name: "filter-A, filter-AAAA", handle: filterAddresses, fast: stopAtFilters},
	{name: "cluster", handle: serveCluster, fast: fastCluster},
	{name: "filterwin2k", handle: refuseWindows, fast: stopAtWindows},
	{name: "bogus-priv", handle: refusePrivate, fast: stopAtPrivate},
	{name: "max-ttl", handle: limitTTL},
	{name: "minimal ANY", handle: serveMinimalAny, fast: stopAtAny},
	{name: "cache", handle: serveCached, fast: fastCache},
	{name: "alias, bogus-nxdomain, stop-dns-rebind", handle: screen, fast: stopAtScreen},
	{name: "upstreams", handle: serveUpstream, fast: fastUpstream},
}

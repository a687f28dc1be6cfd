// An empty module in place of one that the proxy of Go modules does not always have, and that no package of node-cache's is built from.
module inet.af/netaddr

go 1.20

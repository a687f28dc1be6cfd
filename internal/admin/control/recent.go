package control

import "context"

const recentNamesPath = "/v1/recent-names"

// RecentNames are a few of the names that clients asked for recently, the latest ones first, and that nameservers answered or failed to
// answer. Names that the node answers by itself are not in it.
type RecentNames struct {
	APIVersion string       `json:"apiVersion"`
	Kind       string       `json:"kind"`     // RecentNames
	Failed     []RecentName `json:"failed"`   // within the last minutes
	Negative   []RecentName `json:"negative"` // NXDOMAIN and NODATA that are remembered
	Answered   []RecentName `json:"answered"`
}

// RecentName is one question, and its result.
type RecentName struct {
	Name   string `json:"name"`
	Type   string `json:"type"`
	Result string `json:"result"`           // as in CacheEntry
	Server string `json:"server,omitempty"` // that it came from; "": no server answered
	Age    int64  `json:"age"`              // seconds
}

// FetchRecentNames asks the daemon that listens on path.
func FetchRecentNames(ctx context.Context, path string) (RecentNames, error) {
	return ask[RecentNames](ctx, path, recentNamesPath, nil)
}

package control

import "context"

const recentNamesPath = "/v1/recent-names"

// RecentNames are a few of the names that clients recently queried and that nameservers answered
// or failed to answer, latest first. Names that the node answers itself are not included.
type RecentNames struct {
	APIVersion string       `json:"apiVersion"`
	Kind       string       `json:"kind"`     // RecentNames
	Failed     []RecentName `json:"failed"`   // in the last few minutes
	Negative   []RecentName `json:"negative"` // cached NXDOMAIN and NODATA
	Answered   []RecentName `json:"answered"`
}

// RecentName is one question and its result.
type RecentName struct {
	Name   string `json:"name"`
	Type   string `json:"type"`
	Result string `json:"result"`           // as in CacheEntry
	Server string `json:"server,omitempty"` // source of the response; empty if no server answered
	Age    int64  `json:"age"`              // seconds
}

// FetchRecentNames fetches the names from the daemon that listens on path.
func FetchRecentNames(ctx context.Context, path string) (RecentNames, error) {
	return ask[RecentNames](ctx, path, recentNamesPath, nil)
}

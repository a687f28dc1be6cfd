package metrics

import (
	"maps"
	"runtime"
	"slices"
)

// hostRows are how the daemon and its host are.
var hostRows = []row{
	gauge("build_info", "Always 1: what is running.", []string{"version", "revision", "goversion"}, func(s *Sample, put puts) {
		put.value(1, s.Status.Version, s.Revision, runtime.Version())
	}),
	gauge("ready", "Whether every address is bound and there is somebody to ask: 1 or 0, as /ready and node-dns status.", nil, truth(func(s *Sample) bool { return s.Status.Ready })),
	gauge("problems", "How many problems node-dns status names.", nil, number(func(s *Sample) int { return len(s.Status.Problems) })),
	gauge("memory_limit_bytes", "Memory that the process keeps below, by its control group; 0: no limit.", nil, number(func(s *Sample) int64 { return s.Status.Process.MemoryLimit })),

	gauge("resolvconf_ours", "Whether /etc/resolv.conf names this node by our hand, or systemd-resolved asks it: 1 or 0.", nil,
		truth(func(s *Sample) bool { return s.Status.ResolvConf.Ours || s.Status.ResolvConf.DropIn != "" })),
	gauge("resolvconf_wanted", "Whether it should: 0 where node-dns.yaml or somebody else says who writes the file.", nil,
		truth(func(s *Sample) bool { return s.Status.ResolvConf.Hold == "" || s.Status.ResolvConf.Ours })),
	counter("resolvconf_rewrites_total", "How often the host's files were to be written anew, by what showed it; hook: NetworkManager's hook wrote /etc/resolv.conf by itself.", []string{"reason"}, counts(func(s *Sample) map[string]uint64 { return s.Requests })),
	counter("nm_events_total", "What the daemon saw of NetworkManager on D-Bus that may concern DNS, by what it was; not the events that NetworkManager runs the hook for.", []string{"action"}, counts(func(s *Sample) map[string]uint64 { return s.Events })),

	gauge("config_last_reload_success_timestamp_seconds", "When the configuration files were taken over last.", nil, number(func(s *Sample) float64 { return float64(s.Config.Taken.UnixMilli()) / 1000 })),
	gauge("config_last_reload_successful", "Whether what the configuration files say now is in force: 1, or 0 when they have a fault.", nil, truth(func(s *Sample) bool { return s.Config.Good })),
	counter("reload_failed_total", "How often the configuration files were not taken over for a fault.", nil, number(func(s *Sample) uint64 { return s.Config.Failed })),

	counter("search_nxdomain_total", "Queries for names below the cluster's domain that do not exist: most are a search list's.", nil, number(func(s *Sample) uint64 { return s.SearchNXDomain })),
}

// counts reads a row with one label.
func counts(of func(*Sample) map[string]uint64) func(*Sample, puts) {
	return func(s *Sample, put puts) {
		m := of(s)
		for _, key := range slices.Sorted(maps.Keys(m)) {
			put.value(float64(m[key]), key)
		}
	}
}

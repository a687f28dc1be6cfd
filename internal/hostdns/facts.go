package hostdns

import "fmt"

// factsSteps write the cluster's configuration for the daemon if its file could be read here.
func factsSteps(s *State) []Step {
	if s.Config.Facts == nil || s.Config.FactsFile != "" {
		return nil
	}
	return writeSteps(s.Paths.Facts, s.Facts, s.Config.Facts.Bytes())
}

// forgetFacts returns the step that removes the facts, because they would become stale. A restart
// or a stop of node-dns (ifOurs) keeps them: the daemon may not know its cluster domain without
// them.
func forgetFacts(s *State, ifOurs bool) []Step {
	if ifOurs || !s.Facts.Exists || s.Facts.Err != nil {
		return nil
	}
	return []Step{{Path: s.Paths.Facts, Action: Remove, Before: s.Facts}}
}

// factsWarnings say where the cluster's configuration comes from if its file may not be read here.
func factsWarnings(s *State) []string {
	var w []string
	if c := s.Config; c.FactsFile != "" && c.Facts.File == "" {
		w = append(w, fmt.Sprintf("the cluster's configuration cannot be read here; according to %s there is none", s.Paths.host(c.FactsFile)))
	} else if c.FactsFile != "" {
		w = append(w, fmt.Sprintf("no permission to read %s; using the copy that origin-dns-dispatcher made (%s)", c.Facts.File, s.Paths.host(c.FactsFile)))
	}
	if s.Config.FactsWanted != "" && s.ConfigErr == nil {
		w = append(w, s.Config.FactsWanted+`: run "origin-dns-dispatcher apply" as root to copy it for the daemon`)
	}
	return w
}

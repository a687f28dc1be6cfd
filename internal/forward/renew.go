package forward

// Renew has each question that comes from now on asked by itself, although an equal one is in flight: what that brings may be older than
// what the caller has just been told to forget. Who waits for it already gets it.
func (f *Forward) Renew() {
	f.setting.Lock()
	defer f.setting.Unlock()
	t := *f.table.Load() // a flight belongs to its table
	f.table.Store(&t)
}

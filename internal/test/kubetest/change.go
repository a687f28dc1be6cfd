package kubetest

import (
	"maps"
	"slices"
)

// Apply sets the objects in YAML documents. It panics on invalid text, because the text is part of
// the test.
func (s *Server) Apply(text string) {
	objects, err := Parse(text)
	if err != nil {
		panic(err)
	}
	for _, o := range objects {
		s.Set(o)
	}
}

// Set creates or replaces an object and notifies the watches.
func (s *Server) Set(o Object) { s.set(o, false) }

// Lose is Set without ever notifying a watch: kubernetes#123072.
func (s *Server) Lose(o Object) { s.set(o, true) }

func (s *Server) set(o Object, lost bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	made := encode(o, s.version)
	s.recordLocked(made.resource, made.key(), made, lost)
}

// Delete deletes an object and notifies the watches. It does nothing if the object does not exist.
func (s *Server) Delete(kind, namespace, name string) { s.remove(kind, namespace, name, false) }

// LoseDelete is Delete without ever notifying a watch.
func (s *Server) LoseDelete(kind, namespace, name string) { s.remove(kind, namespace, name, true) }

func (s *Server) remove(kind, namespace, name string, lost bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, _, _ := resourceOf(newObject(kind))
	key := namespace + "/" + name
	if s.shelves[r].objects[key] == nil {
		return
	}
	s.version++
	s.recordLocked(r, key, nil, lost)
}

// Touch increments the version, like a change of an object of another kind.
func (s *Server) Touch() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
}

// recordLocked replaces the object at key with now, which may be nil.
func (s *Server) recordLocked(r resource, key string, now *object, lost bool) {
	shelf := s.shelves[r]
	was := shelf.objects[key]
	if now == nil {
		delete(shelf.objects, key)
	} else {
		shelf.objects[key] = now
	}
	shelf.history = append(shelf.history, change{version: s.version, was: was, now: now, lost: lost})
	close(s.changed)
	s.changed = make(chan struct{})
}

// Backup is the state of a Server at one time.
type Backup struct {
	version uint64
	objects map[resource]map[string]*object
}

// Backup returns the current state.
func (s *Server) Backup() Backup {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := Backup{version: s.version, objects: make(map[resource]map[string]*object)}
	for r, shelf := range s.shelves {
		b.objects[r] = maps.Clone(shelf.objects)
	}
	return b
}

// Restore restores the state including its version, like an etcd restored from a backup, and ends
// the watches, because its API servers restart.
func (s *Server) Restore(b Backup) {
	s.mu.Lock()
	s.version = b.version
	for r, shelf := range s.shelves {
		shelf.objects = maps.Clone(b.objects[r])
		shelf.history, shelf.oldest = nil, s.version
	}
	s.mu.Unlock()
	s.CloseWatches()
}

// Objects returns the objects of a kind, sorted by namespace and name.
func (s *Server) Objects(kind string) []Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, _, _ := resourceOf(newObject(kind))
	var all []Object
	for _, o := range s.sortedLocked(r) {
		all = append(all, o.source.DeepCopyObject().(Object))
	}
	return all
}

func (s *Server) sortedLocked(r resource) []*object {
	objects := s.shelves[r].objects
	all := make([]*object, 0, len(objects))
	for _, key := range slices.Sorted(maps.Keys(objects)) {
		all = append(all, objects[key])
	}
	return all
}

package kubetest

import (
	"encoding/binary"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// watcher is one running watch.
type watcher struct {
	server  *Server
	target  target
	out     *counter
	flush   func()
	json    bool
	version uint64 // last version sent
}

func (s *Server) watch(w http.ResponseWriter, r *http.Request, t target, f Faults) {
	flusher := http.NewResponseController(w)
	watch := &watcher{
		server: s, target: t, out: &counter{w: w, server: s}, flush: func() { _ = flusher.Flush() },
		json: f.JSON || t.resource.isCustom() || !wantsProtobuf(r), version: t.version,
	}
	if watch.json {
		w.Header().Set("Content-Type", jsonType)
	} else {
		w.Header().Set("Content-Type", protobufType+";stream=watch")
	}
	watch.flush()
	if gone := s.gone(t); gone != nil {
		watch.fail(gone)
		return
	}
	watch.run(r, f)
}

func (w *watcher) run(r *http.Request, f Faults) {
	timeout, bookmarks := never, never
	if w.target.timeout > 0 {
		timer := time.NewTimer(w.target.timeout)
		defer timer.Stop()
		timeout = timer.C
	}
	if w.target.bookmarks && !f.NoBookmarks {
		ticker := time.NewTicker(w.server.bookmarkEvery)
		defer ticker.Stop()
		bookmarks = ticker.C
	}
	for {
		state := w.server.look(w.target, w.version)
		for _, event := range state.events {
			if f.CutEvent {
				w.sendHalf(event)
				panic(http.ErrAbortHandler)
			}
			w.send(event)
		}
		w.version = max(w.version, state.version)
		select {
		case <-r.Context().Done():
			return
		case <-state.dropped:
			return
		case <-state.cut:
			w.sendHalf(wireEvent{kind: "ADDED", object: &object{resource: w.target.resource, protobuf: make([]byte, 100)}})
			panic(http.ErrAbortHandler)
		case <-timeout:
			return
		case <-bookmarks:
			if state.version >= w.target.version { // a real server sends none from before the start of the watch
				w.send(wireEvent{kind: "BOOKMARK", version: w.version})
			}
		case <-state.changed:
		}
	}
}

var never <-chan time.Time

// wireEvent is an event as sent to a watch.
type wireEvent struct {
	kind    string
	object  *object // nil for a bookmark
	version uint64
}

// view is a snapshot for a watch.
type view struct {
	events                []wireEvent
	version               uint64
	changed, dropped, cut <-chan struct{}
}

func (s *Server) look(t target, since uint64) view {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := view{version: s.version, changed: s.changed, dropped: s.dropped, cut: s.cut}
	history := s.shelves[t.resource].history
	first := len(history)
	for first > 0 && history[first-1].version > since {
		first--
	}
	for _, c := range history[first:] {
		was, is := t.matches(c.was), t.matches(c.now)
		switch {
		case c.lost:
		case is && !was:
			v.events = append(v.events, wireEvent{kind: "ADDED", object: c.now, version: c.version})
		case is:
			v.events = append(v.events, wireEvent{kind: "MODIFIED", object: c.now, version: c.version})
		case was:
			v.events = append(v.events, wireEvent{kind: "DELETED", object: c.was, version: c.version})
		}
	}
	return v
}

func (w *watcher) send(e wireEvent) {
	_, _ = w.out.Write(w.encode(e))
	w.flush()
}

// fail sends the reason for the end of the watch.
func (w *watcher) fail(status *metav1.Status) {
	raw, err := status.Marshal()
	if err != nil {
		panic(err)
	}
	data := frame("ERROR", envelope(metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, raw))
	if w.json {
		if data, err = json.Marshal(map[string]any{"type": "ERROR", "object": status}); err != nil {
			panic(err)
		}
	}
	_, _ = w.out.Write(data)
	w.flush()
}

func (w *watcher) sendHalf(e wireEvent) {
	data := w.encode(e)
	_, _ = w.out.Write(data[:len(data)/2])
	w.flush()
}

// encode returns the encoded event. The object in a DELETED event is its last state with the
// version of the deletion.
func (w *watcher) encode(e wireEvent) []byte {
	o := e.object
	switch {
	case o == nil:
		empty := newObject(kindOf(w.target.resource))
		o = encode(empty, e.version)
	case o.source != nil && o.version != e.version:
		o = encode(o.source.DeepCopyObject().(Object), e.version)
	}
	if w.json {
		var raw json.RawMessage = []byte("{}")
		if o.source != nil {
			raw = o.json()
		}
		data, err := json.Marshal(map[string]any{"type": e.kind, "object": raw})
		if err != nil {
			panic(err)
		}
		return append(data, '\n')
	}
	typeMeta := listKind(w.target.resource)
	typeMeta.Kind = kindOf(w.target.resource)
	return frame(e.kind, envelope(typeMeta, o.protobuf))
}

func kindOf(r resource) string {
	kind := listKind(r).Kind
	return kind[:len(kind)-len("List")]
}

func frame(kind string, data []byte) []byte {
	event := metav1.WatchEvent{Type: kind, Object: runtime.RawExtension{Raw: data}}
	message, err := event.Marshal()
	if err != nil {
		panic(err)
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(message))), message...)
}

// gone returns an error if the history after the watch's version is lost, or nil.
func (s *Server) gone(t target) *metav1.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.watch && t.version < s.shelves[t.resource].oldest {
		return &metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusGone, Reason: metav1.StatusReasonExpired,
			Message: "too old resource version: " + strconv.FormatUint(t.version, 10),
		}
	}
	if !t.watch && t.version > s.version {
		return &metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusGatewayTimeout, Reason: metav1.StatusReasonTimeout,
			Message: "Too large resource version",
			Details: &metav1.StatusDetails{
				RetryAfterSeconds: 1,
				Causes:            []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge}},
			},
		}
	}
	return nil
}

package kubetest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Faults are the faults of responses. The zero value has none.
type Faults struct {
	Status     int  // status of every response: 429, 500, 503; 0 means the right one
	RetryAfter int  // seconds, in the header of a response with Status
	Plain      bool // send Status as plain text, like the server's own filters and proxies
	Hang       bool // no response at all; the connection stays open

	CutList     bool // a list ends too early
	CutEvent    bool // a watch ends within its first event
	EventGone   bool // 410 is an event of the watch instead of its response, as in servers before 1.16
	NoBookmarks bool
	JSON        bool // send lists and watches as JSON, whatever the client accepts

	Watches bool // apply the faults only to watches
	Lists   bool // only to lists
	Imports bool // only to lists and watches of ServiceImports
	First   int  // number of requests, from the first, that get the faults; 0 means all
}

// SetFaults sets the faults for later requests.
func (s *Server) SetFaults(f Faults) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults, s.met = f, 0
}

// takeFaults returns the faults for a request.
func (s *Server) takeFaults(t target) Faults {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.faults
	if f.Imports && (t.resource != imports || t.discovery) || f.Watches && !t.watch || f.Lists && (t.watch || t.review || t.discovery || t.health) || f.First > 0 && s.met >= f.First {
		return Faults{}
	}
	s.met++
	return f
}

// Deny revokes a permission, such as "list", "endpointslices".
func (s *Server) Deny(verb, resource string) { s.setRight(verb, resource, true) }

// Grant restores a permission.
func (s *Server) Grant(verb, resource string) { s.setRight(verb, resource, false) }

func (s *Server) setRight(verb, resource string, denied bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.denied[verb+" "+resource] = denied
}

// refusal returns the reason to reject a request, or nil.
func (s *Server) refusal(t target, known bool, f Faults, r *http.Request) *metav1.Status {
	s.mu.Lock()
	token, old := s.token, s.old
	hasNone := t.resource == imports && !s.imports || t.resource == operators && !s.openShift
	silent := 0
	if t.discovery && t.resource == imports {
		silent = s.silentImports
	}
	verb := "list"
	if t.watch {
		verb = "watch"
	}
	denied := !t.review && !t.discovery && !t.health && s.denied[verb+" "+string(t.resource)]
	s.mu.Unlock()
	switch {
	case f.Status != 0:
		return failure(f.Status, metav1.StatusReason(http.StatusText(f.Status)), "a fault that was ordered")
	case token != "" && r.Header.Get("Authorization") != "Bearer "+token:
		return failure(http.StatusUnauthorized, metav1.StatusReasonUnauthorized, "Unauthorized")
	case silent != 0:
		return failure(silent, metav1.StatusReason(http.StatusText(silent)), "it does not say what it has")
	case !known || old && t.resource == "endpointslices" || hasNone:
		return failure(http.StatusNotFound, metav1.StatusReasonNotFound, "the server could not find the requested resource")
	case denied:
		return failure(http.StatusForbidden, metav1.StatusReasonForbidden,
			fmt.Sprintf(`%s is forbidden: User "test" cannot %s resource %q`, t.resource, verb, t.resource))
	case t.review || t.discovery || t.health:
		return nil
	case f.EventGone && t.watch:
		return nil
	}
	return s.gone(t)
}

func failure(code int, reason metav1.StatusReason, message string) *metav1.Status {
	return &metav1.Status{Status: metav1.StatusFailure, Code: int32(code), Reason: reason, Message: message}
}

func (s *Server) writeStatus(w http.ResponseWriter, r *http.Request, status *metav1.Status) {
	s.mu.Lock()
	f := s.faults
	s.mu.Unlock()
	if f.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(f.RetryAfter))
	}
	switch {
	case f.Plain:
		http.Error(w, status.Message, int(status.Code))
	case wantsProtobuf(r):
		raw, err := status.Marshal()
		if err != nil {
			panic(err)
		}
		w.Header().Set("Content-Type", protobufType)
		w.WriteHeader(int(status.Code))
		_, _ = w.Write(envelope(metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, raw))
	default:
		writeJSON(w, int(status.Code), status)
	}
}

func writeJSON(w http.ResponseWriter, code int, value any) {
	w.Header().Set("Content-Type", jsonType)
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(value)
}

// review answers a SelfSubjectAccessReview.
func (s *Server) review(w http.ResponseWriter, r *http.Request) {
	var asked authorizationv1.SelfSubjectAccessReview
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil || asked.Spec.ResourceAttributes == nil {
		s.writeStatus(w, r, failure(http.StatusBadRequest, metav1.StatusReasonBadRequest, fmt.Sprint(err)))
		return
	}
	about := asked.Spec.ResourceAttributes
	if want := resource(about.Resource).prefix(); !strings.Contains(want, "/"+about.Group+"/") && about.Group != "" {
		s.writeStatus(w, r, failure(http.StatusBadRequest, metav1.StatusReasonBadRequest, "group "+about.Group))
		return
	}
	s.mu.Lock()
	asked.Status.Allowed = !s.denied[about.Verb+" "+about.Resource]
	s.mu.Unlock()
	writeJSON(w, http.StatusCreated, asked)
}

package kubetest

import (
	"encoding/json"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// operators is a custom resource: the API has it from SetOpenShift on.
const operators resource = "dnses"

// SetOpenShift has the API be one of OpenShift 4, with the DNS of its operator. A new Server has none.
func (s *Server) SetOpenShift() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.openShift = true
}

// DNS is what is used here of operator.openshift.io/v1.
type DNS struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              json.RawMessage `json:"spec"`
}

// DeepCopyObject implements runtime.Object.
func (d *DNS) DeepCopyObject() runtime.Object {
	copied := *d
	d.DeepCopyInto(&copied.ObjectMeta)
	copied.Spec = slices.Clone(d.Spec)
	return &copied
}

// Marshal is for the other kinds: a custom resource has no form in protobuf.
func (d *DNS) Marshal() ([]byte, error) { return nil, nil }

package kubetest

import (
	"encoding/json"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// operators is a custom resource. The API has it after SetOpenShift.
const operators resource = "dnses"

// SetOpenShift makes the API that of OpenShift 4, with the DNS resource of its operator. By default
// it has none.
func (s *Server) SetOpenShift() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.openShift = true
}

// DNS has the fields of operator.openshift.io/v1 that this package uses.
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

// Marshal returns nothing: a custom resource has no protobuf encoding.
func (d *DNS) Marshal() ([]byte, error) { return nil, nil }

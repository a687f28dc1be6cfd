package kubetest

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// imports is a custom resource. The API has it after SetImports, and only in JSON.
const imports resource = "serviceimports"

// SetImports sets whether the API has ServiceImports. By default it has none.
func (s *Server) SetImports(has bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.imports = has
}

// SetSilentImports makes the server answer the question whether it has ServiceImports with this
// status code: 503 during startup, or 403. 0 restores the right answer.
func (s *Server) SetSilentImports(code int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.silentImports = code
}

// ServiceImport has the fields of multicluster.x-k8s.io/v1alpha1 (KEP-1645) that this package uses.
type ServiceImport struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Type  string       `json:"type"`
		IPs   []string     `json:"ips,omitempty"`
		Ports []ImportPort `json:"ports,omitempty"`
	} `json:"spec"`
}

// ImportPort is a port of a ServiceImport.
type ImportPort struct {
	Name     string `json:"name,omitempty"`
	Protocol string `json:"protocol,omitempty"`
	Port     int32  `json:"port"`
}

// DeepCopyObject implements runtime.Object.
func (i *ServiceImport) DeepCopyObject() runtime.Object {
	copied := *i
	i.DeepCopyInto(&copied.ObjectMeta)
	copied.Spec.IPs, copied.Spec.Ports = slices.Clone(i.Spec.IPs), slices.Clone(i.Spec.Ports)
	return &copied
}

// Marshal returns nothing: a custom resource has no protobuf encoding.
func (i *ServiceImport) Marshal() ([]byte, error) { return nil, nil }

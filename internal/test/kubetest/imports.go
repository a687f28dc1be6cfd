package kubetest

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// imports is a custom resource: the API has it from SetImports on, and writes it in JSON only.
const imports resource = "serviceimports"

// SetImports says whether the API has ServiceImports. A new Server has none.
func (s *Server) SetImports(has bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.imports = has
}

// SetSilentImports has the server answer with this code when it is asked whether it has ServiceImports: 503 while it starts, 403. 0: it
// says it.
func (s *Server) SetSilentImports(code int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.silentImports = code
}

// ServiceImport is what is used here of multicluster.x-k8s.io/v1alpha1 (KEP-1645).
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

// Marshal is for the other kinds: a custom resource has no form in protobuf.
func (i *ServiceImport) Marshal() ([]byte, error) { return nil, nil }

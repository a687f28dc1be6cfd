package kube

const rbac = "rbac.authorization.k8s.io"

// Bindings returns bindings of a user to every ClusterRole among the objects.
func Bindings(user User, objects []*Object) []*Object {
	var all []*Object
	for _, object := range objects {
		if object.GetKind() == "ClusterRole" {
			all = append(all, binding(user, object.GetName()))
		}
	}
	return all
}

func binding(user User, role string) *Object {
	return &Object{Object: map[string]any{
		"apiVersion": rbac + "/v1",
		"kind":       "ClusterRoleBinding",
		"metadata":   map[string]any{"name": "test:" + role + ":" + user.Name},
		"roleRef":    map[string]any{"apiGroup": rbac, "kind": "ClusterRole", "name": role},
		"subjects":   []any{map[string]any{"apiGroup": rbac, "kind": "User", "name": user.Name}},
	}}
}

package kubetest

import (
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

const (
	protobufType = "application/vnd.kubernetes.protobuf"
	jsonType     = "application/json"
	magic        = "k8s\x00"
	gzipFrom     = 128 << 10 // minimum size of lists that a kube-apiserver compresses
)

func wantsProtobuf(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), protobufType)
}

func (s *Server) list(w http.ResponseWriter, r *http.Request, t target, f Faults) {
	s.mu.Lock()
	version := s.version
	var items []*object
	for _, o := range s.sortedLocked(t.resource) {
		if t.matches(o) {
			items = append(items, o)
		}
	}
	s.mu.Unlock()
	meta := metav1.ListMeta{ResourceVersion: strconv.FormatUint(version, 10)}
	// A list from the watch cache is always complete, regardless of its limit.
	if t.limit > 0 && len(items) > t.limit && !t.versioned {
		items, meta.Continue = items[:t.limit], "more"
	}
	contentType, body := jsonType, listJSON(t.resource, meta, items)
	if wantsProtobuf(r) && !f.JSON && !t.resource.isCustom() {
		contentType, body = protobufType, listProtobuf(t.resource, meta, items)
	}
	if f.CutList {
		body = body[:len(body)*2/3]
	}
	s.writeList(w, r, contentType, body)
}

func (s *Server) writeList(w http.ResponseWriter, r *http.Request, contentType string, body []byte) {
	w.Header().Set("Content-Type", contentType)
	out := &counter{w: w, server: s}
	if len(body) < gzipFrom || !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		_, _ = out.Write(body)
		return
	}
	w.Header().Set("Content-Encoding", "gzip")
	// the level that a kube-apiserver uses
	packed, err := gzip.NewWriterLevel(out, 4)
	if err != nil {
		panic(err)
	}
	_, _ = packed.Write(body)
	_ = packed.Close()
}

// counter counts the bytes sent.
type counter struct {
	w      io.Writer
	server *Server
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	c.server.sent += int64(n)
	return n, err
}

func listKind(r resource) metav1.TypeMeta {
	kinds := map[resource]string{
		"services": "Service", "endpointslices": "EndpointSlice", "endpoints": "Endpoints",
		"namespaces": "Namespace", "pods": "Pod", "nodes": "Node", imports: "ServiceImport", "configmaps": "ConfigMap", operators: "DNS",
	}
	return metav1.TypeMeta{APIVersion: r.group(), Kind: kinds[r] + "List"}
}

// listProtobuf encodes a list in the form of every ...List of k8s.io/api: 1 metadata, 2 items.
func listProtobuf(r resource, meta metav1.ListMeta, items []*object) []byte {
	metadata, err := meta.Marshal()
	if err != nil {
		panic(err)
	}
	raw := appendField(nil, 1, metadata)
	for _, o := range items {
		raw = appendField(raw, 2, o.protobuf)
	}
	return envelope(listKind(r), raw)
}

func appendField(b []byte, number uint64, data []byte) []byte {
	b = binary.AppendUvarint(b, number<<3|2)
	b = binary.AppendUvarint(b, uint64(len(data)))
	return append(b, data...)
}

func envelope(typeMeta metav1.TypeMeta, raw []byte) []byte {
	unknown := runtime.Unknown{
		TypeMeta: runtime.TypeMeta{APIVersion: typeMeta.APIVersion, Kind: typeMeta.Kind}, Raw: raw,
	}
	data, err := unknown.Marshal()
	if err != nil {
		panic(err)
	}
	return append([]byte(magic), data...)
}

func listJSON(r resource, meta metav1.ListMeta, items []*object) []byte {
	var b strings.Builder
	typeMeta := listKind(r)
	fmt.Fprintf(&b, `{"kind":%q,"apiVersion":%q,"metadata":{"resourceVersion":%q,"continue":%q},"items":[`,
		typeMeta.Kind, typeMeta.APIVersion, meta.ResourceVersion, meta.Continue)
	for i, o := range items {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(o.json())
	}
	b.WriteString("]}\n")
	return []byte(b.String())
}

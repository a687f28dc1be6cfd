package kubewire

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// objectJSON has the fields that are read of any kind of object. No field name has two meanings
// among the kinds.
type objectJSON struct {
	room     *int // members that all its lists may still have; negative if they had more. See newObjectJSON
	Metadata struct {
		Name            string `json:"name"`
		Namespace       string `json:"namespace"`
		ResourceVersion string `json:"resourceVersion"`
		Labels          struct {
			Service string `json:"kubernetes.io/service-name"`
			Import  string `json:"multicluster.kubernetes.io/service-name"`
			Cluster string `json:"multicluster.kubernetes.io/source-cluster"`
			Zone    string `json:"topology.kubernetes.io/zone"`
			OldZone string `json:"failure-domain.beta.kubernetes.io/zone"`
		} `json:"labels"`
		Annotations struct {
			Trigger string `json:"endpoints.kubernetes.io/last-change-trigger-time"`
		} `json:"annotations"`
	} `json:"metadata"`
	Spec struct {
		Type                     string         `json:"type"`
		ClusterIP                string         `json:"clusterIP"`
		ClusterIPs               list[string]   `json:"clusterIPs"`
		IPs                      list[string]   `json:"ips"` // ServiceImport
		ExternalName             string         `json:"externalName"`
		Ports                    list[portJSON] `json:"ports"`
		Selector                 some           `json:"selector"`
		PublishNotReadyAddresses bool           `json:"publishNotReadyAddresses"`
		HostNetwork              bool           `json:"hostNetwork"`
		DNSPolicy                string         `json:"dnsPolicy"`
		DNSConfig                struct {
			Searches some `json:"searches"`
		} `json:"dnsConfig"`
		DNS
	} `json:"spec"`
	Status struct {
		Phase  string            `json:"phase"`
		PodIP  string            `json:"podIP"`
		PodIPs list[addressJSON] `json:"podIPs"`
	} `json:"status"`
	Data      texts              `json:"data"` // ConfigMap
	Endpoints list[endpointJSON] `json:"endpoints"`
	Ports     list[portJSON]     `json:"ports"`
	Subsets   list[subsetJSON]   `json:"subsets"`
}

type subsetJSON struct {
	Addresses         list[addressJSON] `json:"addresses"`
	NotReadyAddresses list[addressJSON] `json:"notReadyAddresses"`
	Ports             list[portJSON]    `json:"ports"`
}

type portJSON struct {
	Name     string `json:"name"`
	Port     int32  `json:"port"`
	Protocol string `json:"protocol"`
}

type referenceJSON struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
}

type addressJSON struct {
	IP        string        `json:"ip"`
	Hostname  string        `json:"hostname"`
	TargetRef referenceJSON `json:"targetRef"`
}

type endpointJSON struct {
	Addresses  list[string] `json:"addresses"`
	Conditions struct {
		Ready *bool `json:"ready"`
	} `json:"conditions"`
	Hostname  string        `json:"hostname"`
	TargetRef referenceJSON `json:"targetRef"`
	Zone      string        `json:"zone"`
}

// listJSON decodes a list. Its metadata may come before or after the items.
func (d *Decoder) listJSON(body io.Reader, each func(Object) error) (meta listMeta, err error) {
	bound := &bounded{r: bufio.NewReaderSize(body, readAhead), left: maxObject}
	values := json.NewDecoder(bound)
	if err := expect(values, json.Delim('{')); err != nil {
		return meta, err
	}
	for values.More() {
		key, err := values.Token()
		if err != nil {
			return meta, malformed(err)
		}
		switch key {
		case "metadata":
			err = meta.decode(values)
		case "items":
			err = d.itemsJSON(values, bound, each)
		case "kind":
			var kind string
			if err = values.Decode(&kind); err == nil && kind != d.kind.String()+"List" {
				err = fmt.Errorf("%w: unexpected kind %.100q", ErrMalformed, kind)
			}
		default:
			var ignored json.RawMessage
			err = values.Decode(&ignored)
		}
		if err != nil {
			return meta, malformed(err)
		}
	}
	return meta, expect(values, json.Delim('}'))
}

func (m *listMeta) decode(values *json.Decoder) error {
	var from struct {
		ResourceVersion string `json:"resourceVersion"`
		Continue        string `json:"continue"`
	}
	if err := values.Decode(&from); err != nil {
		return err
	}
	m.more = from.Continue != ""
	var err error
	m.version, err = parseVersion([]byte(from.ResourceVersion))
	return err
}

func (d *Decoder) itemsJSON(values *json.Decoder, bound *bounded, each func(Object) error) error {
	start, err := values.Token()
	if err != nil || start == nil { // null is an empty list, as Go writes it
		return err
	}
	if start != json.Delim('[') {
		return fmt.Errorf("%w: items is not a list", ErrMalformed)
	}
	for values.More() {
		bound.left = maxObject
		from := newObjectJSON()
		if err := values.Decode(from); err != nil {
			return err
		}
		object, err := d.convert(from)
		if err != nil {
			return err
		}
		if err := each(object); err != nil {
			return err
		}
	}
	bound.left = maxObject
	return expect(values, json.Delim(']'))
}

func (d *Decoder) eventJSON(values *json.Decoder, bound *bounded) (event Event, err error) {
	bound.left = maxObject
	var from struct {
		Type   string          `json:"type"`
		Object json.RawMessage `json:"object"`
	}
	if err := values.Decode(&from); err != nil {
		if errors.Is(err, io.EOF) {
			return Event{}, io.EOF
		}
		return Event{}, malformed(err)
	}
	if from.Type == "ERROR" {
		event.Type = Failed
		event.Status, err = parseStatusJSON(from.Object)
		return event, err
	}
	object := newObjectJSON()
	if err := json.Unmarshal(from.Object, object); err != nil {
		return Event{}, malformed(err)
	}
	switch from.Type {
	case "ADDED", "MODIFIED":
		event.Object, err = d.convert(object)
	case "DELETED":
		event.Type = Deleted
		event.Object, err = d.convert(object)
		event.Object.Value, event.Object.Triggered = nil, time.Time{}
	case "BOOKMARK":
		event.Type = Bookmark
		event.Object.Version, err = parseVersion([]byte(object.Metadata.ResourceVersion))
	default:
		err = fmt.Errorf("%w: event type %.40q", ErrMalformed, from.Type)
	}
	return event, err
}

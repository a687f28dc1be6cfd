{{- define "node-dns.fullname" -}}
{{- $name := .Release.Name -}}
{{- if not (contains .Chart.Name $name) }}{{ $name = printf "%s-%s" $name .Chart.Name }}{{ end -}}
{{- default $name .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- end }}

{{- define "node-dns.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "node-dns.labels" -}}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{ include "node-dns.selector" . }}
{{- end }}

{{- /* Names of cluster-wide objects. contrib/cluster-role.yaml creates others named node-dns. */ -}}
{{- define "node-dns.clusterName" -}}
{{ .Release.Namespace }}:{{ include "node-dns.fullname" . }}
{{- end }}

{{- define "node-dns.subjects" -}}
- kind: ServiceAccount
  name: {{ include "node-dns.fullname" . }}
  namespace: {{ .Release.Namespace }}
{{- end }}

{{- /* "true" if the helper intercepts queries, else empty. With Cilium, there is no helper. */ -}}
{{- define "node-dns.intercepts" -}}
{{- $addresses := .Values.config.intercept -}}
{{- if .Values.cilium.enabled }}{{ $addresses = "none" }}{{ end -}}
{{- if not (kindIs "slice" $addresses) }}{{ $addresses = list $addresses }}{{ end -}}
{{- if without $addresses nil "" "none" }}true{{ end -}}
{{- end }}

{{- /* node-dns.yaml, with the address of metrics that the probes use, and what Cilium needs. */ -}}
{{- define "node-dns.config" -}}
{{- $metrics := default dict .Values.config.metrics -}}
{{- if hasKey $metrics "address" }}{{ fail "set metrics.address and metrics.port instead of config.metrics.address: the probes use them" }}{{ end -}}
{{- $host := .Values.metrics.address -}}
{{- $cilium := dict -}}
{{- if .Values.cilium.enabled }}
{{- $host = get (dict "127.0.0.1" "0.0.0.0" "::1" "::") $host | default $host -}}
{{- $cilium = dict "intercept" "cilium" "listen" (.Values.config.listen | default "all") -}}
{{- end -}}
{{- if contains ":" $host }}{{ $host = printf "[%s]" $host }}{{ end -}}
{{- $address := dict "address" (printf "%s:%v" $host .Values.metrics.port) -}}
{{- toYaml (merge (dict "metrics" (merge $address $metrics)) $cilium .Values.config) -}}
{{- end }}

{{- /* The host of the probes: the address of metrics on this node. With Cilium, empty: the pod's. */ -}}
{{- define "node-dns.probeHost" -}}
{{- if not .Values.cilium.enabled -}}
{{- get (dict "0.0.0.0" "127.0.0.1" "::" "::1") .Values.metrics.address | default .Values.metrics.address -}}
{{- end -}}
{{- end }}

{{- /* The ports of a CiliumLocalRedirectPolicy, for the pod: Cilium finds a port by its name. */ -}}
{{- define "node-dns.ciliumPorts" -}}
- name: {{ .Values.cilium.ports.udp }}
  containerPort: 53
  protocol: UDP
- name: {{ .Values.cilium.ports.tcp }}
  containerPort: 53
  protocol: TCP
{{- end }}

{{- /* The same, for the policy. */ -}}
{{- define "node-dns.ciliumToPorts" -}}
- {name: {{ .Values.cilium.ports.udp }}, port: "53", protocol: UDP}
- {name: {{ .Values.cilium.ports.tcp }}, port: "53", protocol: TCP}
{{- end }}

{{- define "node-dns.image" -}}
image: {{ printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
{{- end }}

{{- /* Text with the names of metrics, as config.metrics.namespace has them. */ -}}
{{- define "node-dns.metricNames" -}}
{{- $namespace := get (default dict .config.metrics) "namespace" | default "nodedns" -}}
{{- .text | trim | replace "nodedns_" (print $namespace "_") -}}
{{- end }}

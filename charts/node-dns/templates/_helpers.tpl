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

{{- /* "true" if node-dns.yaml requests interception, else empty. */ -}}
{{- define "node-dns.intercepts" -}}
{{- $addresses := .Values.config.intercept -}}
{{- if not (kindIs "slice" $addresses) }}{{ $addresses = list $addresses }}{{ end -}}
{{- if without $addresses nil "" "none" }}true{{ end -}}
{{- end }}

{{- /* node-dns.yaml, with the address of metrics that the probes use. */ -}}
{{- define "node-dns.config" -}}
{{- $metrics := default dict .Values.config.metrics -}}
{{- if hasKey $metrics "address" }}{{ fail "set metrics.address and metrics.port instead of config.metrics.address: the probes use them" }}{{ end -}}
{{- $host := .Values.metrics.address -}}
{{- if contains ":" $host }}{{ $host = printf "[%s]" $host }}{{ end -}}
{{- $address := dict "address" (printf "%s:%v" $host .Values.metrics.port) -}}
{{- toYaml (merge (dict "metrics" (merge $address $metrics)) .Values.config) -}}
{{- end }}

{{- /* The host of the probes: the address of metrics on this node. */ -}}
{{- define "node-dns.probeHost" -}}
{{- get (dict "0.0.0.0" "127.0.0.1" "::" "::1") .Values.metrics.address | default .Values.metrics.address -}}
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

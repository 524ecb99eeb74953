{{/* The groups of controllers that run, as a YAML list. Those for Cluster API have to be enabled. */}}
{{- define "ingot.groups" -}}
- host
- discovery
- firmware
{{- range $group := list "cluster" "remediation" "autoscale" }}
{{- if dig $group "enabled" false $.Values.operator }}
- {{ $group }}
{{- end }}
{{- end }}
{{- end }}

{{/* The arguments that only the group "group" of "operator" has. */}}
{{- define "ingot.groupArgs" -}}
{{- if eq .group "cluster" }}
{{- with .operator.cluster }}
{{- if .fastTrack }}
- --fast-track
{{- end }}
{{- with .nodeReuseWait }}
- --node-reuse-wait={{ . }}
{{- end }}
{{- if .nameBasedPreallocation }}
- --enable-bmh-name-based-preallocation
{{- end }}
{{- end }}
{{- else if eq .group "remediation" }}
{{- with .operator.remediation }}
{{- with .budget }}
- --remediation-budget={{ . }}
{{- end }}
{{- with .nodeTimeout }}
- --remediation-node-timeout={{ . }}
{{- end }}
{{- if .extraActions }}
- --remediation-extra-actions
{{- end }}
{{- end }}
{{- end }}
{{- if and .operator.watchFilter (has .group (list "cluster" "remediation" "autoscale")) }}
- --watch-filter={{ .operator.watchFilter }}
{{- end }}
{{- end }}

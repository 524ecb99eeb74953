{{/* Labels of a component. */}}
{{- define "ingot.labels" -}}
app.kubernetes.io/name: ingot
app.kubernetes.io/component: {{ . }}
{{- end }}

{{/* The image of Ingot. */}}
{{- define "ingot.image" -}}
image: {{ printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
{{- end }}

{{/* What a container of Ingot may do. */}}
{{- define "ingot.containerSecurity" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  runAsNonRoot: true
  capabilities:
    drop:
    - ALL
{{- end }}

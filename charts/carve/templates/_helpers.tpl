{{- define "carve.labels" -}}
app.kubernetes.io/part-of: carve
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | quote }}
{{- end }}

{{- define "carve.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- /* The last part of the driver's name, which its classes end with. */}}
{{- define "carve.suffix" -}}
{{ .Values.dra.driverName | splitList "." | rest | join "." }}
{{- end }}

{{- /* Jobs that agents leave to others: those of agent.without, and those of NVIDIA's charts that are switched off by their own names. */}}
{{- define "carve.without" -}}
{{- $jobs := .Values.agent.without }}
{{- if not .Values.devicePlugin.enabled }}{{ $jobs = append $jobs "device-plugin" }}{{ end }}
{{- if not .Values.migManager.enabled }}{{ $jobs = append $jobs "mig" }}{{ end }}
{{- if not .Values.gfd.enabled }}{{ $jobs = append $jobs "labels" }}{{ end }}
{{- $jobs | uniq | join "," }}
{{- end }}

{{- define "carve.restricted" -}}
allowPrivilegeEscalation: false
capabilities:
  drop: [ALL]
readOnlyRootFilesystem: true
runAsNonRoot: true
runAsUser: 65532
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- /* What makes an object part of the way off a cluster. */}}
{{- define "carve.leave" -}}
helm.sh/hook: pre-delete
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end }}

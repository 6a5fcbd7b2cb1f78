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

{{- /* What a ClusterPolicy of NVIDIA's operator says, where one is named and there. `helm template` asks no cluster and finds none. */}}
{{- define "carve.policy" -}}
{{- $found := dict }}
{{- with .Values.clusterPolicy.name }}
{{- $found = lookup "nvidia.com/v1" "ClusterPolicy" "" . | default dict }}
{{- end }}
{{- $found.spec | default dict | toJson }}
{{- end }}

{{- /* The ConfigMap of the device plugin's configurations: a ClusterPolicy's wins over the values. */}}
{{- define "carve.pluginConfig" -}}
{{- $policy := include "carve.policy" . | fromJson }}
{{- $theirs := ($policy.devicePlugin | default dict).config | default dict }}
{{- $own := .Values.devicePlugin.config }}
{{- if $theirs.name }}
{{- dict "create" false "name" $theirs.name "default" ($theirs.default | default "") | toJson }}
{{- else }}
{{- dict "create" $own.create "name" $own.name "default" $own.default | toJson }}
{{- end }}
{{- end }}

{{- /* The ConfigMap of MIG configs, and the config of nodes without a label. */}}
{{- define "carve.migConfig" -}}
{{- $policy := include "carve.policy" . | fromJson }}
{{- $theirs := ($policy.migManager | default dict).config | default dict }}
{{- $own := .Values.migManager.config }}
{{- $default := $own.default | default .Values.migManager.default }}
{{- dict "name" ($theirs.name | default $own.name) "default" ($theirs.default | default $default) | toJson }}
{{- end }}

{{- define "carve.migStrategy" -}}
{{- $policy := include "carve.policy" . | fromJson }}
{{- ($policy.mig | default dict).strategy | default .Values.mig.strategy }}
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

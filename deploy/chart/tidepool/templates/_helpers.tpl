{{/* Labels of every object. Takes the root and the component's name; Helm adds managed-by itself. */}}
{{- define "tidepool.labels" -}}
app.kubernetes.io/name: tidepool
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
app.kubernetes.io/part-of: tidepool
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
{{- end }}

{{/* The same with the label by which workloads are found. */}}
{{- define "tidepool.workloadLabels" -}}
koord-app: {{ .component }}
{{ include "tidepool.labels" . }}
{{- end }}

{{- define "tidepool.image" -}}
{{ .Values.image.host | default .Values.imageRepositoryHost }}/{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{/* klog's levels as ours. */}}
{{- define "tidepool.verbosity" -}}
{{- if ge (int .) 6 }}-vvv{{ else if ge (int .) 4 }}-vv{{ else }}-v{{ end }}
{{- end }}

{{/* Metadata of an object that outlives the release. */}}
{{- define "tidepool.kept" -}}
annotations:
  helm.sh/resource-policy: keep
{{- end }}

{{/* What a component that needs nothing of its node runs with. */}}
{{- define "tidepool.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "tidepool.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{/* Replicas on different nodes where there are several. Takes the root, the component's name and its values. */}}
{{- define "tidepool.placement" -}}
{{- with .values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        koord-app: {{ .component }}
{{- with .values.nodeAffinity }}
affinity:
  nodeAffinity:
    {{- toYaml . | nindent 4 }}
{{- end }}
{{- end }}

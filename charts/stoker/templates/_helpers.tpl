{{/* Object names are fixed: the CSI driver's name allows one Stoker per cluster. */}}

{{- define "stoker.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{/* Labels that select: never to change between versions. Call with a component's name. */}}
{{- define "stoker.selectorLabels" -}}
app.kubernetes.io/name: stoker
app.kubernetes.io/component: {{ . }}
{{- end }}

{{/* Labels of every object. Call with (dict "root" $ "component" NAME). */}}
{{- define "stoker.labels" -}}
{{ include "stoker.selectorLabels" .component }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- end }}

{{/* What the "restricted" Pod Security level asks of a container. */}}
{{- define "stoker.restricted" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- define "stoker.restrictedPod" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{/* User name of a service account of this release. Call with (dict "root" $ "name" NAME). */}}
{{- define "stoker.username" -}}
system:serviceaccount:{{ .root.Release.Namespace }}:{{ .name }}
{{- end }}

{{/* Annotations of a hook's object: made for the hook, gone after it. Call with (dict "event" EVENT "weight" N). */}}
{{- define "stoker.hook" -}}
helm.sh/hook: {{ .event }}
helm.sh/hook-weight: {{ .weight | quote }}
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end }}

{{/* Pod of a hook's Job. Call with (dict "root" $ "account" SERVICE_ACCOUNT "command" LIST). */}}
{{- define "stoker.hookPod" -}}
serviceAccountName: {{ .account }}
enableServiceLinks: false
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
restartPolicy: Never
securityContext: {{- include "stoker.restrictedPod" . | nindent 2 }}
{{- with .root.Values.operator.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.operator.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
containers:
  - name: hook
    image: {{ include "stoker.image" .root }}
    imagePullPolicy: {{ .root.Values.image.pullPolicy }}
    command: {{- toYaml .command | nindent 6 }}
    env:
      - name: POD_NAMESPACE
        valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
      - {name: STOKER_LOG_LEVEL, value: {{ .root.Values.logLevel | quote }}}
    resources:
      requests: {cpu: 10m, memory: 96Mi}
      limits: {memory: 512Mi}
    securityContext: {{- include "stoker.restricted" . | nindent 6 }}
    volumeMounts:
      - {name: tmp, mountPath: /tmp}
volumes:
  - name: tmp
    emptyDir: {medium: Memory, sizeLimit: 16Mi}
{{- end }}

{{/* What the sidecar is told of its cache folders: paths by commas, those in memory marked. */}}
{{- define "stoker.cacheFolders" -}}
{{- $folders := list }}
{{- range $index, $folder := .Values.sidecar.cacheDirs }}
{{- $folders = append $folders (kindIs "map" $folder | ternary (printf "memory:/var/lib/stoker-memory/%d" $index) $folder) }}
{{- end }}
{{- join "," $folders }}
{{- end }}

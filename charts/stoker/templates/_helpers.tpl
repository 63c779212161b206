{{/* Object names are fixed: the CSI driver's name allows one Stoker per cluster. */}}

{{- define "stoker.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ with .Values.image.digest }}@{{ . }}{{ end }}
{{- end }}

{{/* "true" where Kueue's AdmissionChecks are answered. */}}
{{- define "stoker.kueue" -}}
{{- if eq (toString .Values.kueue.enabled) "auto" -}}
{{ .Capabilities.APIVersions.Has "kueue.x-k8s.io/v1beta1" }}
{{- else -}}
{{ .Values.kueue.enabled }}
{{- end -}}
{{- end }}

{{/* Variables of the log, for all processes. */}}
{{- define "stoker.logEnv" -}}
- {name: STOKER_LOG_LEVEL, value: {{ .Values.logLevel | quote }}}
- {name: STOKER_LOG_FORMAT, value: {{ .Values.logging.format | quote }}}
{{- end }}

{{/* Variables of traces, for operator and agent. */}}
{{- define "stoker.traceEnv" -}}
{{- with .Values.tracing.endpoint }}
- {name: OTEL_EXPORTER_OTLP_ENDPOINT, value: {{ . | quote }}}
{{- end }}
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
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
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

{{/* Namespace of the nodes' ServiceAccounts. */}}
{{- define "stoker.nodeAccounts" -}}
{{- if gt (len .Release.Namespace) 57 }}
{{- fail (printf "the namespace %s is too long: the nodes' accounts live in one named like it with -nodes behind, so install Stoker in a namespace of at most 57 characters" .Release.Namespace) }}
{{- end }}
{{- .Release.Namespace }}-nodes
{{- end }}

{{/* Puts an admission policy into force. Call with (dict "root" $ "name" NAME "component" COMPONENT), "action"
Warn in place of Deny. */}}
{{- define "stoker.policyBinding" }}
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: {{ .name }}
  labels: {{- include "stoker.labels" . | nindent 4 }}
spec:
  policyName: {{ .name }}
  validationActions: [{{ .action | default "Deny" }}]
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
priorityClassName: {{ .root.Values.operator.priorityClassName }}
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
      {{- include "stoker.logEnv" .root | nindent 6 }}
    resources:
      requests: {cpu: 10m, memory: 96Mi, ephemeral-storage: 16Mi}
      limits: {memory: 512Mi, ephemeral-storage: 64Mi}
    securityContext: {{- include "stoker.restricted" . | nindent 6 }}
    volumeMounts:
      - {name: tmp, mountPath: /tmp}
volumes:
  - name: tmp
    emptyDir: {medium: Memory, sizeLimit: 16Mi}
{{- end }}

{{/* Refuses cache folders that the schema cannot: those that are used for something else, or lie in each other. */}}
{{- define "stoker.checkCacheFolders" -}}
{{- $own := list "/var/lib/stoker/state" "/var/lib/stoker/mnt" "/var/lib/stoker-memory" "/run/stoker" "/tmp" .Values.kubeletDir }}
{{- $folders := list }}
{{- range .Values.sidecar.cacheDirs }}
{{- if kindIs "string" . }}
{{- $folders = append $folders . }}
{{- end }}
{{- end }}
{{- if not .Values.sidecar.cacheDirs }}
{{- fail "sidecar.cacheDirs is empty: add a folder, such as /var/lib/stoker/cache" }}
{{- end }}
{{- range $folder := $folders }}
{{- if regexMatch "/[.][.](/|$)" $folder }}
{{- fail (printf "sidecar.cacheDirs: %s has '..' in it: write the folder's plain path" $folder) }}
{{- end }}
{{- range concat $own (splitList "," (include "stoker.hostFolders" $) | compact) }}
{{- if or (eq $folder "/var/lib/stoker") (hasPrefix (printf "%s/" .) (printf "%s/" $folder)) }}
{{- fail (printf "sidecar.cacheDirs: %s is used for something else: name another folder, such as /var/lib/stoker/cache" $folder) }}
{{- end }}
{{- end }}
{{- range without $folders $folder }}
{{- if hasPrefix (printf "%s/" .) $folder }}
{{- fail (printf "sidecar.cacheDirs: %s lies in %s: name folders beside each other, on different disks" $folder .) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* Paths of the host folders, by commas. */}}
{{- define "stoker.hostFolders" -}}
{{- $paths := list }}
{{- range .Values.sidecar.hostFolders }}
{{- if has .path $paths }}
{{- fail (printf "sidecar.hostFolders names %s twice: name it once, with all its namespaces" .path) }}
{{- end }}
{{- $paths = append $paths .path }}
{{- end }}
{{- join "," $paths }}
{{- end }}

{{/* What the sidecar is told of its cache folders: paths by commas, those in memory marked. */}}
{{- define "stoker.cacheFolders" -}}
{{- include "stoker.checkCacheFolders" . }}
{{- $folders := list }}
{{- range $index, $folder := .Values.sidecar.cacheDirs }}
{{- $folders = append $folders (kindIs "map" $folder | ternary (printf "memory:/var/lib/stoker-memory/%d" $index) $folder) }}
{{- end }}
{{- join "," $folders }}
{{- end }}

{{/* Caps and prices of object stores as JSON. An origin has one name however its endpoint is written, as the operator has it. */}}
{{- define "stoker.origins" -}}
{{- $names := list }}
{{- range .Values.origins.caps }}
{{- $endpoint := .endpoint | default "" | trimSuffix "/" | lower }}
{{- $endpoint = regexReplaceAll "^(http://.*):80$" $endpoint "${1}" }}
{{- $endpoint = regexReplaceAll "^(https://.*):443$" $endpoint "${1}" }}
{{- $name := $endpoint }}
{{- if or .bucket (not .endpoint) }}
{{- $name = printf "%s/%s" ($endpoint | default "s3:/") (.bucket | default "") }}
{{- end }}
{{- if has $name $names }}
{{- fail (printf "origins.caps names %s twice: name it once, with all its limits and its price" $name) }}
{{- end }}
{{- $names = append $names $name }}
{{- end }}
{{- .Values.origins | toJson }}
{{- end }}

{{/* The tuning document: a mapping in the values, or the text of a file (--set-file tuning.document=FILE). */}}
{{- define "stoker.tuningDocument" -}}
{{- $document := .Values.tuning.document }}
{{- if kindIs "string" $document }}
{{- $document = fromYaml $document }}
{{- end }}
{{- if not (kindIs "map" $document.spec) }}
{{- fail "tuning.document must have apiVersion, kind, metadata and spec (docs/reference/rules.md)" }}
{{- end }}
{{- toYaml $document }}
{{- end }}

{{/* Name of the TuningProfile of Datasets that name none; empty: there is none. */}}
{{- define "stoker.tuningProfile" -}}
{{- if and .Values.tuning.document .Values.tuning.existingProfile }}
{{- fail "tuning.document and tuning.existingProfile are both set: remove one of them" }}
{{- end }}
{{- if .Values.tuning.document }}
{{- $document := include "stoker.tuningDocument" . | fromYaml }}
{{- ($document.metadata | default dict).name | default "default" }}
{{- else }}
{{- .Values.tuning.existingProfile }}
{{- end }}
{{- end }}

{{/* The values of sidecar.peers, as YAML. Where they have the default, sidecar.neighbours, their old name, applies. */}}
{{- define "stoker.peers" -}}
{{- $new := .Values.sidecar.peers | default dict }}
{{- $old := .Values.sidecar.neighbours | default dict }}
{{- $peers := dict "mode" "Auto" "uploads" 16 "bytesPerSecond" "0" "rackLabel" "" }}
{{- range $name, $default := $peers }}
{{- if and (hasKey $new $name) (ne (get $new $name | toString) ($default | toString)) }}
{{- $_ := set $peers $name (get $new $name) }}
{{- else if hasKey $old $name }}
{{- $_ := set $peers $name (get $old $name) }}
{{- end }}
{{- end }}
{{- $peers | toYaml }}
{{- end }}

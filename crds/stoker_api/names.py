"""Every name that users or other components see.

Groups, labels, annotations, gates, CSI attributes, conditions, reasons.
"""

from enum import StrEnum

GROUP = "stoker.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"

DATASETS_PLURAL = "datasets"
TRAINING_JOBS_PLURAL = "trainingjobs"
NODE_CACHES_PLURAL = "nodecaches"
DATASET_CLASSES_PLURAL = "datasetclasses"
TUNING_PROFILES_PLURAL = "tuningprofiles"

# Labels.
LABEL_MANAGED = f"{GROUP}/managed"  # on pods that the webhook changed; the operator watches these
LABEL_DATASET = f"{GROUP}/dataset"  # on the PersistentVolume and claim for a Dataset
LABEL_DATASET_NAMESPACE = f"{GROUP}/dataset-namespace"
LABEL_TRAINING_JOB = f"{GROUP}/training-job"
LABEL_GANG = f"{GROUP}/gang"  # pods with the same value (in one namespace) are released together
LABEL_MANAGED_BY = "app.kubernetes.io/managed-by"
MANAGED_BY = "stoker"

# Annotations that users write on a pod or a pod template.
ANNOTATION_DATASETS = f"{GROUP}/datasets"
ANNOTATION_SCHEDULING = f"{GROUP}/scheduling"
ANNOTATION_MAX_WAIT = f"{GROUP}/max-wait"
ANNOTATION_CONTAINERS = f"{GROUP}/containers"
ANNOTATION_REPORT = f"{GROUP}/report"  # "false": the pod gets no report socket
ANNOTATION_GANG_SIZE = f"{GROUP}/gang-size"  # number of gang pods that are released together; TrainingJobs write it
ANNOTATION_SAMPLING = (
    f"{GROUP}/sampling"  # JSON, see stoker_api.jobs.sampling: in which order the pod reads its samples
)

# All user annotations on pods and pod templates. The chart's admission hints list the same ones.
USER_ANNOTATIONS = (
    ANNOTATION_DATASETS,
    ANNOTATION_SCHEDULING,
    ANNOTATION_MAX_WAIT,
    ANNOTATION_CONTAINERS,
    ANNOTATION_REPORT,
    ANNOTATION_GANG_SIZE,
    ANNOTATION_SAMPLING,
)

# Administrators set this on a DatasetClass, like on a StorageClass; and its path for kubectl.
ANNOTATION_DEFAULT_CLASS = f"datasetclass.{GROUP}/is-default-class"
DEFAULT_CLASS_PATH = r".metadata.annotations.datasetclass\.stoker\.dev/is-default-class"

# Administrators set this on a NodeCache. Off: Stoker does not observe the reads of pods on the node.
ANNOTATION_OBSERVE = f"{GROUP}/observe"
# The same for tuning. Off: Stoker changes no setting on the node.
ANNOTATION_TUNING = f"{GROUP}/tuning"
# The same for peers. Off: the node gets no certificate and exchanges no files with other nodes.
ANNOTATION_PEERS = f"{GROUP}/peers"

# The controller name of Stoker in a Kueue AdmissionCheck, and the annotation that an administrator writes on the check:
# the time limit for warm data.
KUEUE_CONTROLLER = f"{GROUP}/data-warm"
ANNOTATION_WARM_WITHIN = f"{GROUP}/warm-within"

# Annotations that Stoker writes.
ANNOTATION_TEMPLATE_HASH = f"{GROUP}/template-hash"  # on a TrainingJob's Job: hash of its source
ANNOTATION_WAITING = f"{GROUP}/waiting"  # on a held pod: why it waits, in a sentence; its Dataset shows the progress
# On a pod with several scheduling gates: the time since which Stoker's is the last one, RFC 3339. Empty until then.
ANNOTATION_HELD_SINCE = f"{GROUP}/held-since"
# On pods of a job that queued for its data: start and end of that wait; see core/views/earlier_wait.py.
ANNOTATION_WAITED = f"{GROUP}/waited"
ANNOTATION_RELEASED = f"{GROUP}/released"  # on a released pod: JSON, see stoker_api.datasets.release.ReleaseRecord
# All annotations that Stoker writes on pods and Jobs.
OWN_ANNOTATIONS = (
    ANNOTATION_WAITING,
    ANNOTATION_HELD_SINCE,
    ANNOTATION_WAITED,
    ANNOTATION_RELEASED,
    ANNOTATION_TEMPLATE_HASH,
)
ANNOTATION_WARM_REQUESTED = f"{GROUP}/warm-requested"  # on a Dataset: RFC 3339 time of `stoker warm`
ANNOTATION_REFRESH_REQUESTED = f"{GROUP}/refresh-requested"  # on a Dataset: RFC 3339 time of `stoker refresh`

# A taint of nodes without a sidecar yet. The node provisioner sets it, and the operator removes it.
TAINT_AGENT_NOT_READY = "stoker.dev/agent-not-ready"
TAINT_LEAVING = "stoker.dev/leaving"  # set by people: the node is about to leave, and its data moves to other nodes
GATE_WARM = f"{GROUP}/warm"
FINALIZER = f"{GROUP}/cleanup"

# CSI.
CSI_DRIVER = "csi.stoker.dev"
CSI_ATTRIBUTE_DATASET = "dataset"
CSI_ATTRIBUTE_DATASET_NAMESPACE = "datasetNamespace"
CSI_ATTRIBUTE_VERSION = "version"  # digest of the version that the pod mounts; absent: the current one at mount time
CSI_ATTRIBUTE_USER_NAMESPACE = "userNamespace"  # "true": the pod has hostUsers: false
CSI_ATTRIBUTE_REPORT = "report"  # "true": a volume with the report socket, not a Dataset
# Hints that the webhook reads from the pod's spec, for tuning: see stoker_api.jobs.pod_hints.
CSI_ATTRIBUTE_HINT_FRAMEWORK = "hintFramework"
CSI_ATTRIBUTE_HINT_FRAMEWORK_SOURCE = "hintFrameworkSource"
CSI_ATTRIBUTE_HINT_BATCH_SIZE = "hintBatchSize"
CSI_ATTRIBUTE_HINT_GPUS = "hintGpus"
CSI_ATTRIBUTE_HINT_JOB = "hintJob"
CSI_ATTRIBUTE_SAMPLING = "sampling"  # as the annotation, with the pod's rank
CSI_ATTRIBUTE_SCRATCH = "scratch"  # size of the volume's writable layer; absent: the volume is read-only
CSI_POD_NAME = "csi.storage.k8s.io/pod.name"
CSI_POD_NAMESPACE = "csi.storage.k8s.io/pod.namespace"
CSI_POD_UID = "csi.storage.k8s.io/pod.uid"
CSI_EPHEMERAL = "csi.storage.k8s.io/ephemeral"

# The report socket in a pod, and the variable with its path (docs/guides/reports.md).
REPORT_FOLDER = "/run/stoker"
REPORT_SOCKET = f"{REPORT_FOLDER}/report.sock"
REPORT_VARIABLE = "STOKER_REPORT_SOCKET"

# Keys of the Secret that spec.source.credentials.secretRef names.
SECRET_ACCESS_KEY_ID = "AWS_ACCESS_KEY_ID"
SECRET_SECRET_ACCESS_KEY = "AWS_SECRET_ACCESS_KEY"
SECRET_SESSION_TOKEN = "AWS_SESSION_TOKEN"  # optional
SECRET_CA_CERTIFICATE = "ca.crt"  # optional: PEM bundle that signs the endpoint's certificate

# EKS's annotation: the role that web identity assumes.
ANNOTATION_ROLE_ARN = "eks.amazonaws.com/role-arn"
WEB_IDENTITY_AUDIENCE = "sts.amazonaws.com"

# RBAC that the operator creates in a Dataset's namespace: a Role for each Secret and ServiceAccount that Datasets there
# name, bound to the accounts of the nodes that have these Datasets.
CREDENTIALS_PREFIX = "stoker-credentials-"
# Earlier releases used one Role for all credentials of a namespace and all nodes.
CREDENTIALS_ROLE = "stoker-sidecar-credentials"
LABEL_NODE_ACCOUNT = f"{GROUP}/node-account"  # on pods of sidecars that read credentials with their node's account


def node_accounts_namespace(installed_in: str) -> str:
    """Return the namespace of the nodes' ServiceAccounts. ``installed_in`` is Stoker's namespace.

    Each account has the name of its node.
    """
    return f"{installed_in}-nodes"


# A Secret with the authority that signs node certificates, and its key. Only the operator reads it.
PEER_AUTHORITY_SECRET = "stoker-peer-ca"
# The certificate that all sidecars of earlier releases share. This release neither creates, reads nor accepts it.
EARLIER_PEER_SECRET = "stoker-peer-tls"


class ConditionType(StrEnum):
    """Condition types of Datasets, TrainingJobs and NodeCaches."""

    ACCEPTED = "Accepted"
    LISTED = "Listed"
    WARM = "Warm"
    READY = "Ready"
    DEGRADED = "Degraded"
    DELETION_BLOCKED = "DeletionBlocked"
    LIMITED = "Limited"  # Dataset: True while its class gives it less than it requests
    PATHS_FOUND = "PathsFound"  # Dataset: False while a path of warm.paths, or a line of warm.list, matches no file
    NODES_FOUND = "NodesFound"  # Dataset: False while a node of warm.nodes cannot be warmed
    # Dataset: present while a node with its data is about to leave; says if other nodes have all of it
    MOVING = "Moving"
    PAGES_WARM = "PagesWarm"  # Dataset: whether nodes have read the warm files into their page cache
    MEMORY_PINNED = "MemoryPinned"  # Dataset: whether nodes keep the files of cache.memory in memory
    ON_TIME = "OnTime"  # Dataset: whether it will be warm by warm.deadline, at the measured rates
    # Dataset: True while nodes send its bucket fewer requests because it answered SlowDown
    SOURCE_SLOWED = "SourceSlowed"
    TUNED = "Tuned"  # Dataset, TrainingJob: False while its profile or template is not in force
    RECONCILED = "Reconciled"  # Dataset: False while the API server refuses an object that the operator writes for it
    CACHE_FOLDERS = "CacheFolders"  # NodeCache: whether all cache folders are in service and have room
    DATA_READY = "DataReady"  # TrainingJob: its pods were released onto nodes with data
    RUNNING = "Running"  # TrainingJob
    COMPLETE = "Complete"  # TrainingJob
    FAILED = "Failed"  # TrainingJob
    SUSPENDED = "Suspended"  # TrainingJob
    ORDER = "Order"  # TrainingJob: whether workers read in the order that spec.sampling predicts


class Reason(StrEnum):
    """Reasons of conditions, events and node errors. docs/operations/troubleshooting.md explains each one."""

    # Good or passing states.
    ACCEPTED = "Accepted"
    LISTING = "Listing"
    LISTED = "Listed"
    WARMING = "Warming"
    WARM = "Warm"
    ON_DEMAND = "OnDemand"  # nothing is warmed ahead; pods' reads fetch bytes
    MANUAL = "Manual"  # waits for `stoker warm`
    PAUSED = "Paused"
    READY = "Ready"
    HEALTHY = "Healthy"
    NEW_VERSION = "NewVersion"
    # The source.
    INVALID_SPEC = "InvalidSpec"
    UNSUPPORTED_SCHEME = "UnsupportedScheme"
    MALFORMED_URI = "MalformedURI"
    SECRET_NOT_FOUND = "SecretNotFound"
    SECRET_KEY_MISSING = "SecretKeyMissing"
    SERVICE_ACCOUNT_NOT_FOUND = "ServiceAccountNotFound"
    ACCESS_DENIED = "AccessDenied"
    INVALID_CREDENTIALS = "InvalidCredentials"
    BUCKET_NOT_FOUND = "BucketNotFound"
    FOLDER_NOT_FOUND = "FolderNotFound"  # file:// sources
    EMPTY_SOURCE = "EmptySource"
    NO_MATCH = "NoMatch"  # include and exclude match no object
    SOURCE_TOO_LARGE = "SourceTooLarge"  # more objects or bytes than a listing allows
    ENDPOINT_UNREACHABLE = "EndpointUnreachable"
    ENDPOINT_NOT_ALLOWED = "EndpointNotAllowed"  # loopback, link-local, a cloud's metadata
    SERVER_ERROR = "ServerError"
    THROTTLED = "Throttled"
    SOURCE_CHANGED = "SourceChanged"  # an object no longer has the ETag of this version
    OBJECT_GONE = "ObjectGone"
    UNREADABLE_OBJECTS = "UnreadableObjects"  # some objects are archived or not readable; the rest is warm
    CORRUPT_BODY = "CorruptBody"  # the length or checksum differs from the manifest
    SLOW_DOWN = "SlowDown"  # the bucket asked for fewer requests, and all nodes slow down for a while
    AT_FULL_SPEED = "AtFullSpeed"  # after SlowDown, the request rate is back to normal
    SKIPPED_KEYS = "SkippedKeys"  # keys that cannot be file names
    PATH_NOT_FOUND = "PathNotFound"  # a path of warm.paths matches no file in this version
    PATHS_FOUND = "PathsFound"
    WARM_LIST_INVALID = "WarmListInvalid"  # the file of warm.list is missing, too large, or has an invalid line
    # The deadline.
    ON_TIME = "OnTime"
    DEADLINE_AT_RISK = "DeadlineAtRisk"
    DEADLINE_MISSED = "DeadlineMissed"
    RATE_UNKNOWN = "RateUnknown"  # nothing is measured yet
    # The class.
    CLASS_NOT_FOUND = "ClassNotFound"
    CLASS_INVALID = "ClassInvalid"  # a DatasetClass that does not parse
    NOT_ALLOWED_BY_CLASS = "NotAllowedByClass"  # refused: its namespace, endpoint or folder
    LIMITED_BY_CLASS = "LimitedByClass"  # accepted, with less than it requests
    WITHIN_CLASS = "WithinClass"
    # Tuning.
    PROFILE_NOT_FOUND = "ProfileNotFound"
    PROFILE_INVALID = "ProfileInvalid"  # a TuningProfile that does not parse
    TEMPLATE_NOT_FOUND = "TemplateNotFound"
    TUNED = "Tuned"
    TUNING_OFF = "TuningOff"
    # The nodes.
    NO_NODES = "NoNodes"  # no ready node matches cache.nodeSelector
    NOT_ENOUGH_NODES = "NotEnoughNodes"
    QUOTA_EXCEEDED = "QuotaExceeded"  # files that fit are cached, the rest is read through
    NAMESPACE_QUOTA_EXCEEDED = "NamespaceQuotaExceeded"  # the namespace has used up its class's quota
    QUOTA_TOO_SMALL = "QuotaTooSmall"  # smaller than the smallest file: nothing is cached
    DISK_FULL = "DiskFull"
    CACHE_DISK_FAILED = "CacheDiskFailed"
    EVICTED = "Evicted"  # an idle dataset was dropped to make room for a more urgent one
    REPAIRED = "Repaired"  # the scrub found damaged files on the disk and refetches them
    NODE_NOT_FOUND = "NodeNotFound"  # a node of warm.nodes does not exist or holds no data
    NODES_FOUND = "NodesFound"
    NODE_LEAVING = "NodeLeaving"  # a node with its data is about to leave, and other nodes fetch that data
    HANDED_OVER = "HandedOver"  # other nodes have all of the data, so the node may leave
    PAGES_WARM = "PagesWarm"
    MEMORY_PINNED = "MemoryPinned"
    MEMORY_SHORT = "MemoryShort"  # less stays in memory than cache.memory requests
    MEMORY_NOT_USED = "MemoryNotUsed"  # no pod mounts it
    NODE_NOT_READY = "NodeNotReady"
    SIDECAR_OUTDATED = "SidecarOutdated"  # a node's sidecar is of a release without this feature
    MANIFEST_UNAVAILABLE = "ManifestUnavailable"
    INTERNAL_ERROR = "InternalError"
    WRITE_FAILED = "WriteFailed"  # the API server, or a policy in it, refuses an object of the operator
    RECONCILED = "Reconciled"
    # Deletion.
    IN_USE = "InUse"
    CLEANING = "Cleaning"
    # Pods.
    WAITING_FOR_DATA = "WaitingForData"
    WAITING_FOR_GANG = "WaitingForGang"
    NO_CAPACITY = "NoCapacity"
    MAX_WAIT_PASSED = "MaxWaitPassed"
    RELEASED = "Released"
    WAITING_FOR_GATES = "WaitingForGates"  # another controller's scheduling gate also holds the pod
    UNSCHEDULABLE = "Unschedulable"  # released to warm nodes, but none of them can take it
    ACCESS_NOT_GRANTED = "AccessNotGranted"
    DATASET_NOT_FOUND = "DatasetNotFound"
    VERSION_NOT_FOUND = "VersionNotFound"  # no node has that version of the Dataset
    MOUNT_FAILED = "MountFailed"
    # TrainingJobs.
    SUSPENDED = "Suspended"
    STARTING = "Starting"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    BACKOFF_LIMIT_EXCEEDED = "BackoffLimitExceeded"
    ORDER_KNOWN = "OrderKnown"  # workers read in the order that spec.sampling predicts
    ORDER_UNKNOWN = "OrderUnknown"  # too few reads to decide
    ORDER_WRONG = "OrderWrong"  # workers read in another order, and the hint was dropped
    GOODPUT = "Goodput"  # how an ended job used its time
    TRAINING_PHASE = "TrainingPhase"  # the training code entered another phase
    NAME_TAKEN = "NameTaken"  # a Service or Job of that name exists and belongs to another owner

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
LABEL_MANAGED = f"{GROUP}/managed"  # on pods that the webhook has changed: what the operator watches
LABEL_DATASET = f"{GROUP}/dataset"  # on the PersistentVolume and claim made for a Dataset
LABEL_DATASET_NAMESPACE = f"{GROUP}/dataset-namespace"
LABEL_TRAINING_JOB = f"{GROUP}/training-job"
LABEL_GANG = f"{GROUP}/gang"  # pods with the same value (in one namespace) are released together
LABEL_MANAGED_BY = "app.kubernetes.io/managed-by"
MANAGED_BY = "stoker"

# Annotations that users write on a pod (or on a pod template).
ANNOTATION_DATASETS = f"{GROUP}/datasets"
ANNOTATION_SCHEDULING = f"{GROUP}/scheduling"
ANNOTATION_MAX_WAIT = f"{GROUP}/max-wait"
ANNOTATION_CONTAINERS = f"{GROUP}/containers"
ANNOTATION_REPORT = f"{GROUP}/report"  # "false": the pod gets no way to report what it does
ANNOTATION_GANG_SIZE = f"{GROUP}/gang-size"  # how many of its gang are released together; TrainingJobs write it
ANNOTATION_SAMPLING = f"{GROUP}/sampling"  # JSON, see stoker_api.sampling: in which order the pod reads its samples

# The annotation that an administrator writes on a DatasetClass, as on a StorageClass; and where kubectl finds it.
ANNOTATION_DEFAULT_CLASS = f"datasetclass.{GROUP}/is-default-class"
DEFAULT_CLASS_PATH = r".metadata.annotations.datasetclass\.stoker\.dev/is-default-class"

# The annotation that an administrator writes on a NodeCache, with the value Off: nobody looks at what that node's pods
# read.
ANNOTATION_OBSERVE = f"{GROUP}/observe"
# The same for tuning: nothing is turned on that node.
ANNOTATION_TUNING = f"{GROUP}/tuning"

# What an AdmissionCheck of Kueue's names to be answered by Stoker, and the annotation that an administrator writes on
# it: within what time data has to be warm.
KUEUE_CONTROLLER = f"{GROUP}/data-warm"
ANNOTATION_WARM_WITHIN = f"{GROUP}/warm-within"

# Annotations that Stoker writes.
ANNOTATION_TEMPLATE_HASH = f"{GROUP}/template-hash"  # on a TrainingJob's Job: of what it was made from
ANNOTATION_WAITING = f"{GROUP}/waiting"  # on a held pod: why it waits, a sentence; its Dataset says how far it is
# On a pod that other scheduling gates hold too: since when Stoker's is the last one, RFC 3339; empty until then.
ANNOTATION_HELD_SINCE = f"{GROUP}/held-since"
# On pods of a job that waited in a queue for its data: since when and until when, see core/earlier_wait.py.
ANNOTATION_WAITED = f"{GROUP}/waited"
ANNOTATION_RELEASED = f"{GROUP}/released"  # on a released pod: JSON, see stoker_api.release.ReleaseRecord
ANNOTATION_WARM_REQUESTED = f"{GROUP}/warm-requested"  # on a Dataset: RFC 3339 time of `stoker warm`
ANNOTATION_REFRESH_REQUESTED = f"{GROUP}/refresh-requested"  # on a Dataset: RFC 3339 time of `stoker refresh`

# A taint of nodes that have no sidecar yet: set by whoever makes nodes, taken off by the operator.
TAINT_AGENT_NOT_READY = "stoker.dev/agent-not-ready"
TAINT_LEAVING = "stoker.dev/leaving"  # set by people: the node is about to go, its data moves to others
GATE_WARM = f"{GROUP}/warm"
FINALIZER = f"{GROUP}/cleanup"

# CSI.
CSI_DRIVER = "csi.stoker.dev"
CSI_ATTRIBUTE_DATASET = "dataset"
CSI_ATTRIBUTE_DATASET_NAMESPACE = "datasetNamespace"
CSI_ATTRIBUTE_VERSION = "version"  # the digest that the pod mounts; absent: the current one at the mount
CSI_ATTRIBUTE_REPORT = "report"  # "true": the folder in which the pod reports, and no Dataset
# What the webhook read in the pod's spec, for tuning: see stoker_api.pod_hints.
CSI_ATTRIBUTE_HINT_FRAMEWORK = "hintFramework"
CSI_ATTRIBUTE_HINT_FRAMEWORK_SOURCE = "hintFrameworkSource"
CSI_ATTRIBUTE_HINT_BATCH_SIZE = "hintBatchSize"
CSI_ATTRIBUTE_HINT_GPUS = "hintGpus"
CSI_ATTRIBUTE_HINT_JOB = "hintJob"
CSI_ATTRIBUTE_SAMPLING = "sampling"  # as the annotation, with the pod's rank
CSI_POD_NAME = "csi.storage.k8s.io/pod.name"
CSI_POD_NAMESPACE = "csi.storage.k8s.io/pod.namespace"
CSI_POD_UID = "csi.storage.k8s.io/pod.uid"
CSI_EPHEMERAL = "csi.storage.k8s.io/ephemeral"

# Where a pod finds the socket to which it reports, and the variable that says so (docs/REPORTS.md).
REPORT_FOLDER = "/run/stoker"
REPORT_SOCKET = f"{REPORT_FOLDER}/report.sock"
REPORT_VARIABLE = "STOKER_REPORT_SOCKET"

# Keys of the Secret that spec.source.credentials.secretRef names.
SECRET_ACCESS_KEY_ID = "AWS_ACCESS_KEY_ID"
SECRET_SECRET_ACCESS_KEY = "AWS_SECRET_ACCESS_KEY"
SECRET_SESSION_TOKEN = "AWS_SESSION_TOKEN"  # optional
SECRET_CA_CERTIFICATE = "ca.crt"  # optional: PEM bundle that signs the endpoint's certificate

# The annotation that EKS users know: the role that web identity assumes.
ANNOTATION_ROLE_ARN = "eks.amazonaws.com/role-arn"
WEB_IDENTITY_AUDIENCE = "sts.amazonaws.com"

# RBAC that the operator makes in a Dataset's namespace: a Role for each Secret and ServiceAccount that Datasets there
# name, bound to the accounts of the nodes that have these Datasets.
CREDENTIALS_PREFIX = "stoker-credentials-"
# An earlier version's: all that a namespace's Datasets name, for all nodes.
CREDENTIALS_ROLE = "stoker-sidecar-credentials"
LABEL_NODE_ACCOUNT = f"{GROUP}/node-account"  # on sidecars' pods that read credentials in the name of their node


def node_accounts_namespace(installed_in: str) -> str:
    """Name the namespace of the nodes' ServiceAccounts, each named like its node; ``installed_in`` is Stoker's own."""
    return f"{installed_in}-nodes"


# By what sidecars know each other when they exchange manifests: a Secret beside Stoker, which the operator makes, and
# the name in the certificate that is in it.
PEER_SECRET = "stoker-peer-tls"
PEER_NAME = "stoker-peer"


class ConditionType(StrEnum):
    """Condition types of Datasets, TrainingJobs and NodeCaches."""

    ACCEPTED = "Accepted"
    LISTED = "Listed"
    WARM = "Warm"
    READY = "Ready"
    DEGRADED = "Degraded"
    DELETION_BLOCKED = "DeletionBlocked"
    LIMITED = "Limited"  # Dataset: True while its class gives it less than it asks for
    PATHS_FOUND = "PathsFound"  # Dataset: False while a path of warm.paths, or a line of warm.list, names nothing
    NODES_FOUND = "NodesFound"  # Dataset: False while a node of warm.nodes cannot be warmed on
    MOVING = "Moving"  # Dataset: while a node that holds it is about to go, whether others do not have it whole yet
    PAGES_WARM = "PagesWarm"  # Dataset: whether its nodes have brought what is warm into their page cache, as asked
    MEMORY_PINNED = "MemoryPinned"  # Dataset: whether what cache.memory asks for stays in the memory of its nodes
    ON_TIME = "OnTime"  # Dataset: whether it is warm by warm.deadline, at the rates that its nodes measure
    SOURCE_SLOWED = "SourceSlowed"  # Dataset: True while its bucket is asked for less, since it answered SlowDown
    TUNED = "Tuned"  # Dataset, TrainingJob: False while the profile or template that it has is not in force
    RECONCILED = "Reconciled"  # Dataset: False while something that the operator writes for it is not taken
    CACHE_FOLDERS = "CacheFolders"  # NodeCache: whether all its cache folders are in service and have room
    DATA_READY = "DataReady"  # TrainingJob: its pods were released onto nodes with data
    RUNNING = "Running"  # TrainingJob
    COMPLETE = "Complete"  # TrainingJob
    FAILED = "Failed"  # TrainingJob
    SUSPENDED = "Suspended"  # TrainingJob
    ORDER = "Order"  # TrainingJob: whether its workers read in the order that spec.sampling predicts


class Reason(StrEnum):
    """Reasons of conditions, events and node errors. docs/TROUBLESHOOTING.md explains each one; a test compares."""

    # Good or passing states.
    ACCEPTED = "Accepted"
    LISTING = "Listing"
    LISTED = "Listed"
    WARMING = "Warming"
    WARM = "Warm"
    ON_DEMAND = "OnDemand"  # nothing is warmed ahead: bytes come when pods read them
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
    NO_MATCH = "NoMatch"  # include and exclude leave nothing
    SOURCE_TOO_LARGE = "SourceTooLarge"  # more objects or bytes than a listing takes
    ENDPOINT_UNREACHABLE = "EndpointUnreachable"
    ENDPOINT_NOT_ALLOWED = "EndpointNotAllowed"  # loopback, link-local, a cloud's metadata
    SERVER_ERROR = "ServerError"
    THROTTLED = "Throttled"
    SOURCE_CHANGED = "SourceChanged"  # an object no longer has the ETag of this version
    OBJECT_GONE = "ObjectGone"
    CORRUPT_BODY = "CorruptBody"  # length or checksum is not what the manifest says
    SLOW_DOWN = "SlowDown"  # the bucket asked for fewer requests: all nodes ask it for less for a while
    AT_FULL_SPEED = "AtFullSpeed"  # it did, and is asked for as much as before again
    SKIPPED_KEYS = "SkippedKeys"  # keys that cannot be file names
    PATH_NOT_FOUND = "PathNotFound"  # a path of warm.paths that names nothing in this version
    PATHS_FOUND = "PathsFound"
    WARM_LIST_INVALID = "WarmListInvalid"  # the file that warm.list names is absent, too large, or has a wrong line
    # The deadline.
    ON_TIME = "OnTime"
    DEADLINE_AT_RISK = "DeadlineAtRisk"
    DEADLINE_MISSED = "DeadlineMissed"
    RATE_UNKNOWN = "RateUnknown"  # nothing was measured yet
    # The class.
    CLASS_NOT_FOUND = "ClassNotFound"
    CLASS_INVALID = "ClassInvalid"  # a DatasetClass that does not parse
    NOT_ALLOWED_BY_CLASS = "NotAllowedByClass"  # refused: its namespace, endpoint or folder
    LIMITED_BY_CLASS = "LimitedByClass"  # taken, with less than it asks for
    WITHIN_CLASS = "WithinClass"
    # Tuning.
    PROFILE_NOT_FOUND = "ProfileNotFound"
    PROFILE_INVALID = "ProfileInvalid"  # a TuningProfile that cannot be read
    TEMPLATE_NOT_FOUND = "TemplateNotFound"
    TUNED = "Tuned"
    TUNING_OFF = "TuningOff"
    # The nodes.
    NO_NODES = "NoNodes"  # no ready node matches cache.nodeSelector
    NOT_ENOUGH_NODES = "NotEnoughNodes"
    QUOTA_EXCEEDED = "QuotaExceeded"  # what fits is kept, the rest is read through
    NAMESPACE_QUOTA_EXCEEDED = "NamespaceQuotaExceeded"  # the namespace has no room left in its class's quota
    QUOTA_TOO_SMALL = "QuotaTooSmall"  # smaller than the smallest file: nothing can be kept
    DISK_FULL = "DiskFull"
    CACHE_DISK_FAILED = "CacheDiskFailed"
    EVICTED = "Evicted"  # an idle dataset was dropped to make room for one that is needed more
    REPAIRED = "Repaired"  # the scrub found damaged files on the disk and fetches them again
    NODE_NOT_FOUND = "NodeNotFound"  # a node of warm.nodes that is none, or holds no data
    NODES_FOUND = "NodesFound"
    NODE_LEAVING = "NodeLeaving"  # a node that holds it is about to go, and others fetch what it has
    HANDED_OVER = "HandedOver"  # the node may go: others have all of it
    PAGES_WARM = "PagesWarm"
    MEMORY_PINNED = "MemoryPinned"
    MEMORY_SHORT = "MemoryShort"  # less stays in memory than cache.memory asks for
    MEMORY_NOT_USED = "MemoryNotUsed"  # no pod has it mounted
    NODE_NOT_READY = "NodeNotReady"
    SIDECAR_OUTDATED = "SidecarOutdated"  # a node's sidecar is of a release that does not know what is asked
    MANIFEST_UNAVAILABLE = "ManifestUnavailable"
    INTERNAL_ERROR = "InternalError"
    WRITE_FAILED = "WriteFailed"  # the API server, or a policy in it, does not take what the operator writes
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
    WAITING_FOR_GATES = "WaitingForGates"  # another controller's scheduling gate holds the pod as well
    UNSCHEDULABLE = "Unschedulable"  # released to warm nodes, of which none takes it any more
    ACCESS_NOT_GRANTED = "AccessNotGranted"
    DATASET_NOT_FOUND = "DatasetNotFound"
    VERSION_NOT_FOUND = "VersionNotFound"  # no node has that version of the Dataset any more
    MOUNT_FAILED = "MountFailed"
    # TrainingJobs.
    SUSPENDED = "Suspended"
    STARTING = "Starting"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    BACKOFF_LIMIT_EXCEEDED = "BackoffLimitExceeded"
    ORDER_KNOWN = "OrderKnown"  # the workers read in the order that spec.sampling predicts
    ORDER_UNKNOWN = "OrderUnknown"  # too little was read to tell
    ORDER_WRONG = "OrderWrong"  # they read in another order, and the hint was dropped
    GOODPUT = "Goodput"  # what a job that has ended made of its time
    TRAINING_PHASE = "TrainingPhase"  # the training code is in another phase
    NAME_TAKEN = "NameTaken"  # a Service or Job of that name exists and is not ours

"""The words of training awareness, as users write and read them. Standard library only."""

from enum import StrEnum


class TrainingPhase(StrEnum):
    """What a workload does now."""

    UNKNOWN = "Unknown"
    INITIALIZATION = "Initialization"
    TRAINING = "Training"
    VALIDATION = "Validation"
    SAVE_CHECKPOINT = "SaveCheckpoint"
    EVALUATION = "Evaluation"
    INFERENCE = "Inference"
    HYPERPARAM_TUNING = "HyperparamTuning"


class ModelFileKind(StrEnum):
    """What a file is to a model."""

    WEIGHTS = "Weights"
    ARCHITECTURE = "Architecture"
    OPTIMIZER = "Optimizer"
    CHECKPOINT = "Checkpoint"
    METADATA = "Metadata"
    UNKNOWN = "Unknown"


class OptimizationLevel(StrEnum):
    """How much is spent on being early; stoker_tuning.recommend has the figures of each."""

    BASIC = "Basic"
    BALANCED = "Balanced"
    AGGRESSIVE = "Aggressive"
    MAXIMUM = "Maximum"


class PrefetchStrategy(StrEnum):
    """How far ahead of the reader bytes are fetched."""

    CONSERVATIVE = "Conservative"
    BALANCED = "Balanced"
    AGGRESSIVE = "Aggressive"
    ADAPTIVE = "Adaptive"


class CachePolicy(StrEnum):
    """What a cache that is short of room keeps."""

    NONE = "None"
    LRU = "LRU"
    TRAINING_AWARE = "TrainingAware"
    ML = "ML"


class CachePriority(StrEnum):
    """Whose bytes go first where there is not room for all."""

    LOW = "Low"
    NORMAL = "Normal"
    HIGH = "High"
    URGENT = "Urgent"


class AccessPattern(StrEnum):
    """In which order bytes are read."""

    UNKNOWN = "unknown"
    SEQUENTIAL = "sequential"
    SHUFFLED = "shuffled"
    STRIDED = "strided"
    RANDOM = "random"  # within a file
    BATCH = "batch"


class Split(StrEnum):
    """Which part of a Dataset a file belongs to."""

    UNKNOWN = "unknown"
    TRAIN = "train"
    VALIDATION = "validation"
    TEST = "test"


class AccessSource(StrEnum):
    """Who saw an access: exact requests, sampled opens, or the pod's own word."""

    FUSE = "fuse"
    FANOTIFY = "fanotify"
    REPORT = "report"


class ConditionScope(StrEnum):
    """What a condition of a rule looks at; a condition's ``type``."""

    FILE_CONTEXT = "file_context"
    ACCESS_PATTERN = "access_pattern"
    WORKLOAD_CONTEXT = "workload_context"
    SYSTEM_CONTEXT = "system_context"
    FILE_PATTERN = "file_pattern"


class ConditionOperator(StrEnum):
    """How a condition compares what it looks at with its value."""

    EQUALS = "equals"
    NOT_EQUALS = "not_equals"
    CONTAINS = "contains"
    MATCHES = "matches"
    GREATER_THAN = "greater_than"
    GREATER_OR_EQUAL = "greater_or_equal"
    LESS_THAN = "less_than"
    LESS_OR_EQUAL = "less_or_equal"
    IN = "in"
    NOT_IN = "not_in"
    EXISTS = "exists"


class ActionType(StrEnum):
    """What a rule that applies does."""

    CACHE = "cache"
    PREFETCH = "prefetch"
    STREAM = "stream"
    COORDINATE = "coordinate"
    COMPRESS = "compress"
    PRIORITIZE = "prioritize"


class ActionTarget(StrEnum):
    """What an action is about."""

    FILE = "file"
    DATASET = "dataset"
    MODEL = "model"
    WORKLOAD = "workload"


class Compression(StrEnum):
    """Whether a compressed copy is kept; ``auto`` asks a measured trial."""

    ON = "on"
    OFF = "off"
    AUTO = "auto"


class WarmOrder(StrEnum):
    """When a file is warmed up, in relation to the others of its Dataset."""

    FIRST = "first"
    EARLY = "early"
    NORMAL = "normal"
    LATE = "late"


class CachePlace(StrEnum):
    """Which kind of cache folder a file is kept in; ``auto`` leaves it to the node."""

    AUTO = "auto"
    MEMORY = "memory"
    DISK = "disk"


class RuleLayer(StrEnum):
    """Where a rule comes from, in the order in which they count: a later one fills what an earlier one left open."""

    CUSTOM = "custom"
    ENVIRONMENT = "environment"
    FRAMEWORK = "framework"
    BUILT_IN = "built-in"

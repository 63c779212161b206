"""Parse the annotations that users write on pods into types that are always valid."""

import posixpath
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from stoker_api import names
from stoker_api.datasets.dataset import SchedulingMode
from stoker_api.jobs.scratch import parse_scratch
from stoker_api.meta import DNS_LABEL_PATTERN, DNS_SUBDOMAIN_PATTERN, parse_duration, shortened

_EXAMPLE = f'write for example {names.ANNOTATION_DATASETS}: "imagenet:/data, team-b/coco@1f3a5c7e9b2d:/coco"'
MOST_DATASETS = 20  # of one pod, as in a TrainingJob; paths are compared in pairs, and each is a volume
MOST_CHARACTERS = 32_768  # of the annotation: 20 of the longest names with the longest paths of a TrainingJob
MOST_CONTAINER_NAMES = 8192  # characters of the annotation that names containers: a hundred of the longest names
_SCRATCH = "scratch"
_OPTION = re.compile(r"[A-Za-z]+\s*=")  # a piece with an option of the Dataset before it
_SHOWN = 60  # characters of a tenant's text in a message
_MOST_KEY = 63 + 1 + 253  # characters of namespace/name
_KEY = re.compile(rf"(?:(?P<namespace>{DNS_LABEL_PATTERN[1:-1]})/)?(?P<name>{DNS_SUBDOMAIN_PATTERN[1:-1]})")
# Digits of a version: at least as many as `kubectl get` shows.
LEAST_VERSION, MOST_VERSION = 12, 64
_VERSION = re.compile(rf"[0-9a-f]{{{LEAST_VERSION},{MOST_VERSION}}}")


@dataclass(frozen=True)
class Refusal:
    """Why a request fails, as a message for the user."""

    sentence: str


@dataclass(frozen=True)
class DatasetRequest:
    """One Dataset that a pod requests. ``path`` None: the pod has its own volume and only needs the gate.

    ``version``: at least the first digits of a version. Empty: the current one. ``scratch``: the size of a writable
    layer, as the user wrote it. Empty: the pod only reads.
    """

    namespace: str
    name: str
    path: str | None = None
    version: str = ""
    scratch: str = ""

    @property
    def key(self) -> str:
        """The key ``namespace/name``."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True)
class PodRequest:
    """The request in a pod's annotations. None: absent, so the Datasets' defaults apply. ``max_wait``: seconds."""

    datasets: tuple[DatasetRequest, ...]
    mode: SchedulingMode | None = None
    max_wait: float | None = None
    containers: frozenset[str] | None = None

    @property
    def keys(self) -> tuple[str, ...]:
        """The Datasets' keys without duplicates, in order."""
        return tuple(dict.fromkeys(request.key for request in self.datasets))


def parse_request(annotations: Mapping[str, str], namespace: str) -> PodRequest | Refusal:
    """Parse the request in ``annotations`` of a pod of ``namespace``, or return the first problem."""
    datasets = parse_datasets(annotations.get(names.ANNOTATION_DATASETS, ""), namespace)
    mode = parse_mode(annotations.get(names.ANNOTATION_SCHEDULING))
    max_wait = parse_max_wait(annotations.get(names.ANNOTATION_MAX_WAIT))
    containers = parse_containers(annotations.get(names.ANNOTATION_CONTAINERS))
    if isinstance(datasets, Refusal):
        return datasets
    if isinstance(mode, Refusal):
        return mode
    if isinstance(max_wait, Refusal):
        return max_wait
    if isinstance(containers, Refusal):
        return containers
    return PodRequest(datasets, mode, max_wait, containers)


def parse_datasets(text: str, namespace: str) -> tuple[DatasetRequest, ...] | Refusal:
    """Parse ``"imagenet:/data, team-b/coco:/coco"``. A name without a namespace is in ``namespace``."""
    if len(text) > MOST_CHARACTERS:
        return Refusal(
            f"the annotation {names.ANNOTATION_DATASETS} is {len(text)} characters long, "
            f"and {MOST_CHARACTERS} are allowed: name fewer Datasets, or shorten their paths"
        )
    pieces = list(filter(None, (part.strip() for part in text.split(","))))
    count = sum(_OPTION.match(piece) is None for piece in pieces)
    if count > MOST_DATASETS or len(pieces) > 2 * MOST_DATASETS:
        return Refusal(
            f"the annotation {names.ANNOTATION_DATASETS} names {max(count, len(pieces) // 2)} Datasets, "
            f"and {MOST_DATASETS} are allowed: put data that is used together into one Dataset"
        )
    requests: list[DatasetRequest] = []
    for piece in pieces:
        request = _with_option(requests, piece) if _OPTION.match(piece) else _parse_piece(piece, namespace)
        if isinstance(request, Refusal):
            return request
        requests.append(request)
    if not requests:
        return Refusal(f"the annotation {names.ANNOTATION_DATASETS} is empty: {_EXAMPLE}")
    return _overlap(requests) or _two_volumes(requests) or tuple(requests)


def _with_option(requests: list[DatasetRequest], piece: str) -> DatasetRequest | Refusal:
    """Take the last request, and return it with the option of ``piece``."""
    name, _, value = (part.strip() for part in piece.partition("="))
    shown = shortened(piece, _SHOWN)
    where = f"{shown!r} in the annotation {names.ANNOTATION_DATASETS}"
    if name != _SCRATCH:
        return Refusal(f"{where} is no option of a Dataset: write for example imagenet:/data,{_SCRATCH}=20Gi")
    if not requests or requests[-1].path is None or requests[-1].scratch:
        return Refusal(f"{where} must follow a Dataset with a path, once: write for example imagenet:/data,{shown}")
    try:
        parse_scratch(value)
    except ValueError as error:
        return Refusal(f"the annotation {names.ANNOTATION_DATASETS} is wrong: {error}")
    return replace(requests.pop(), scratch=value)


def parse_mode(text: str | None) -> SchedulingMode | Refusal | None:
    """Parse the pod's scheduling mode. Return None if absent."""
    if text is None:
        return None
    try:
        return SchedulingMode(text.strip())
    except ValueError:
        choice = ", ".join(SchedulingMode)
        shown = shortened(text, _SHOWN)
        return Refusal(f"the annotation {names.ANNOTATION_SCHEDULING} is {shown!r}: it must be one of {choice}")


def parse_max_wait(text: str | None) -> float | Refusal | None:
    """Parse the maximum wait in seconds. Return None if absent."""
    if text is None:
        return None
    try:
        return parse_duration(text)
    except ValueError as error:
        return Refusal(f"the annotation {names.ANNOTATION_MAX_WAIT} is wrong: {error}")


def parse_containers(text: str | None) -> frozenset[str] | Refusal | None:
    """Parse the names of the containers that get mounts. Return None if absent."""
    if text is None:
        return None
    if len(text) > MOST_CONTAINER_NAMES:
        return Refusal(
            f"the annotation {names.ANNOTATION_CONTAINERS} is {len(text)} characters long, "
            f"and {MOST_CONTAINER_NAMES} are allowed: leave it out to mount in all containers"
        )
    return frozenset(filter(None, (part.strip() for part in text.split(","))))


def format_datasets(requests: Iterable[DatasetRequest]) -> str:
    """Return the annotation's value that parses to ``requests``."""
    return ", ".join(_format(request) for request in requests)


def _format(request: DatasetRequest) -> str:
    named = f"{request.key}@{request.version}" if request.version else request.key
    scratch = f",{_SCRATCH}={request.scratch}" if request.scratch else ""
    return f"{named}:{request.path}{scratch}" if request.path else named


def is_inside(path: str, folder: str) -> bool:
    """Return True if ``path`` is below ``folder``. Both are normalized and absolute."""
    return path != folder and path.startswith(folder.rstrip("/") + "/")


def _parse_piece(piece: str, namespace: str) -> DatasetRequest | Refusal:
    named, colon, raw_path = (part.strip() for part in piece.partition(":"))
    key, at, version = named.partition("@")
    shown = shortened(piece, _SHOWN)
    match = _KEY.fullmatch(key) if len(key) <= _MOST_KEY else None
    if match is None:
        return Refusal(f"{shown!r} in the annotation {names.ANNOTATION_DATASETS} does not name a Dataset: {_EXAMPLE}")
    if at and not _VERSION.fullmatch(version):
        return Refusal(
            f"{shown!r} in the annotation {names.ANNOTATION_DATASETS} needs a version after the '@': {LEAST_VERSION} "
            f"to {MOST_VERSION} digits of 0-9 and a-f, as `kubectl get dataset -o wide` shows them"
        )
    path = _parse_path(raw_path, shown) if colon else None
    if isinstance(path, Refusal):
        return path
    return DatasetRequest(match["namespace"] or namespace, match["name"], path, version)


def _parse_path(raw: str, shown: str) -> str | Refusal:
    # Kubernetes forbids ':' in a mountPath. A '..' would leave the folder that the user means.
    if not raw.startswith("/") or ":" in raw or ".." in raw.split("/"):
        return Refusal(
            f"{shown!r} in the annotation {names.ANNOTATION_DATASETS} needs an absolute path without ':' and '..' "
            f"after the colon: {_EXAMPLE}"
        )
    path = "/" + posixpath.normpath(raw).strip("/")
    if path == "/":
        return Refusal(f"{shown!r} would mount a Dataset over the container's whole file system: choose a folder")
    return path


def _overlap(requests: list[DatasetRequest]) -> Refusal | None:
    mounted = [(request.path, request.key) for request in requests if request.path is not None]
    for index, (path, key) in enumerate(mounted):
        for other_path, other in mounted[index + 1 :]:
            if path == other_path:
                at = shortened(path, _SHOWN)
                return Refusal(f"{key} and {other} both have the mount path {at}: give each Dataset its own path")
            if is_inside(path, other_path) or is_inside(other_path, path):
                return Refusal(
                    f"{key} at {shortened(path, _SHOWN)} and {other} at {shortened(other_path, _SHOWN)} overlap, and "
                    "Datasets are read-only: choose separate paths"
                )
    return None


def _two_volumes(requests: list[DatasetRequest]) -> Refusal | None:
    versions: dict[str, str] = {}
    scratches: dict[str, str] = {}
    for request in requests:
        if versions.setdefault(request.key, request.version) != request.version:
            return Refusal(f"{request.key} is named with two versions: a pod mounts one version of a Dataset")
        if scratches.setdefault(request.key, request.scratch) != request.scratch:
            return Refusal(f"{request.key} has different scratch at its paths, which show one volume: write it at each")
    return None


_GANG_EXAMPLE = (
    f"label all pods of a gang alike, {names.LABEL_GANG}: resnet-1, and annotate each with how many there are, "
    f'{names.ANNOTATION_GANG_SIZE}: "4"'
)
_SHOWN_OF_GANG = 40  # characters of a user's text
_MOST_DIGITS = 18  # of an int64


def read_gang_size(text: str) -> int:
    """Parse the number of pods in a gang. Return 0 if the annotation has no number."""
    return int(text) if text.isdecimal() and len(text) <= _MOST_DIGITS else 0


def gang_problem(labels: Mapping[str, str], annotations: Mapping[str, str]) -> Refusal | None:
    """Refuse a gang without a size, an invalid size, or a size without a gang. Workers of a TrainingJob pass."""
    gang, size = labels.get(names.LABEL_GANG, ""), annotations.get(names.ANNOTATION_GANG_SIZE)
    if names.LABEL_TRAINING_JOB in labels:
        return None
    if size is None:
        return Refusal(f"the pod has the label {names.LABEL_GANG} and not its size: {_GANG_EXAMPLE}") if gang else None
    if not read_gang_size(size):
        said = f"the annotation {names.ANNOTATION_GANG_SIZE} is {shortened(size, _SHOWN_OF_GANG)!r}"
        return Refusal(f"{said}, and it must be a whole number, 1 or more: {_GANG_EXAMPLE}")
    return (
        None
        if gang
        else Refusal(f"the pod has the annotation {names.ANNOTATION_GANG_SIZE} and no gang: {_GANG_EXAMPLE}")
    )

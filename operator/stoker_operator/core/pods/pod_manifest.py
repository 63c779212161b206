"""The fields of a pod's manifest that admission needs, and the largest accepted pod. Other fields are skipped. Pure.

Every object in a list must have a ``name``, as the API server always writes it. That bounds the number of objects in a
body.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final, TypedDict

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from stoker_api import names
from stoker_api.jobs.pod_annotations import Refusal
from stoker_tuning.frameworks.pod_signs import JOB_LABELS

COMPLETION_INDEX: Final = "batch.kubernetes.io/job-completion-index"
MOST_PAIRS: Final = 500  # containers x Datasets
MOST_PATCH: Final = 750_000  # bytes of JSON; base64 adds a third, and a response may have 1 MiB


@dataclass(frozen=True, slots=True)
class PodSize:
    """The number of objects of each kind in a pod's manifest that admission reads."""

    containers: int = 0  # init and ephemeral ones included
    volumes: int = 0
    mounts: int = 0
    variables: int = 0
    arguments: int = 0
    gates: int = 0
    owners: int = 0
    placement_bytes: int = 0  # of affinity, tolerations, topologySpreadConstraints and nodeSelector, as JSON


MOST: Final = PodSize(
    containers=100,
    volumes=250,
    mounts=1000,
    variables=10_000,
    arguments=10_000,
    gates=100,
    owners=100,
    placement_bytes=131_072,
)


def size_problem(size: PodSize) -> Refusal | None:
    """Refuse a pod that exceeds a limit of annotated pods."""
    for kind, most in asdict(MOST).items():
        count = getattr(size, kind)
        if count > most:
            what = kind.replace("_", " ")
            return Refusal(f"the pod has {count} {what}, and a pod with {names.ANNOTATION_DATASETS} may have {most}")
    return None


def pairs_problem(containers: int, datasets: int) -> Refusal | None:
    """Refuse a pod that would get too many mounts."""
    if containers * datasets <= MOST_PAIRS:
        return None
    return Refusal(
        f"{datasets} Datasets in {containers} containers are {containers * datasets} mounts, and {MOST_PAIRS} are "
        f"allowed: name the containers that need them in {names.ANNOTATION_CONTAINERS}"
    )


def bounded(operations: Iterable[dict[str, Any]]) -> tuple[dict[str, Any], ...] | Refusal:
    """Collect the operations of a patch. Return a refusal if they exceed ``MOST_PATCH`` bytes."""
    collected, left = list[dict[str, Any]](), MOST_PATCH
    for operation in operations:
        left -= len(json.dumps(operation)) + 2
        if left < 0:
            return Refusal(
                f"the patch of the pod is larger than {MOST_PATCH // 1000} kB: shorten the paths in "
                f"{names.ANNOTATION_DATASETS}, or name fewer containers in {names.ANNOTATION_CONTAINERS}"
            )
        collected.append(operation)
    return tuple(collected)


_LABELS = (names.LABEL_MANAGED, names.LABEL_GANG, names.LABEL_TRAINING_JOB, *JOB_LABELS)
_ANNOTATIONS = (
    names.ANNOTATION_DATASETS,
    names.ANNOTATION_SCHEDULING,
    names.ANNOTATION_MAX_WAIT,
    names.ANNOTATION_CONTAINERS,
    names.ANNOTATION_REPORT,
    names.ANNOTATION_GANG_SIZE,
    names.ANNOTATION_SAMPLING,
    COMPLETION_INDEX,
)
_ATTRIBUTES = (
    names.CSI_ATTRIBUTE_DATASET,
    names.CSI_ATTRIBUTE_DATASET_NAMESPACE,
    names.CSI_ATTRIBUTE_VERSION,
    names.CSI_ATTRIBUTE_REPORT,
)
_MOST_NAMES = 50_000  # more than all objects that ``pod_bounds.MOST`` allows, including those of skipped fields
_MOST_LIMITS = 4096  # bytes of one container's resource limits; larger ones count as none
# Maps of which only these keys are read. The keys are constants of other modules, so mypy cannot check the literals.
_Labels: Any = TypedDict("_Labels", dict.fromkeys(_LABELS, str), total=False)  # type: ignore[misc]
_Annotations: Any = TypedDict("_Annotations", dict.fromkeys(_ANNOTATIONS, str), total=False)  # type: ignore[misc]
_Attributes: Any = TypedDict("_Attributes", dict.fromkeys(_ATTRIBUTES, str), total=False)  # type: ignore[misc]
_Text = str | UnsetType


class _Owner(Struct, gc=False):
    name: str
    kind: str = ""
    controller: bool | None = None


class _Metadata(Struct, gc=False):
    labels: _Labels | UnsetType | None = UNSET
    annotations: _Annotations | UnsetType | None = UNSET
    ownerReferences: list[_Owner] | UnsetType | None = UNSET  # noqa: N815 -- the API's names


class _Mount(Struct, gc=False):
    name: str
    mountPath: str = ""  # noqa: N815
    readOnly: bool | UnsetType = UNSET  # noqa: N815
    mountPropagation: _Text = UNSET  # noqa: N815
    recursiveReadOnly: _Text = UNSET  # noqa: N815


class _Variable(Struct, gc=False):
    name: str
    value: _Text = UNSET


class _Resources(Struct, gc=False):
    limits: Raw = Raw()


class _Container(Struct, gc=False):
    name: str
    image: _Text = UNSET
    command: list[str] | UnsetType | None = UNSET
    args: list[str] | UnsetType | None = UNSET
    env: list[_Variable] | UnsetType | None = UNSET
    resources: _Resources | UnsetType | None = UNSET
    volumeMounts: list[_Mount] | UnsetType | None = UNSET  # noqa: N815


class _Csi(Struct, gc=False):
    driver: str = ""
    volumeAttributes: _Attributes | UnsetType | None = UNSET  # noqa: N815


class _Claim(Struct, gc=False):
    claimName: str = ""  # noqa: N815


class _Present(Struct, gc=False):
    """An object of which only its presence matters."""


class _Volume(Struct, gc=False):
    name: str
    csi: _Csi | UnsetType | None = UNSET
    persistentVolumeClaim: _Claim | UnsetType | None = UNSET  # noqa: N815
    configMap: _Present | UnsetType | None = UNSET  # noqa: N815
    secret: _Present | UnsetType | None = UNSET
    projected: _Present | UnsetType | None = UNSET
    downwardAPI: _Present | UnsetType | None = UNSET  # noqa: N815


class _Gate(Struct, gc=False):
    name: str


class _Spec(Struct, gc=False):
    containers: list[_Container] | UnsetType | None = UNSET
    initContainers: list[_Container] | UnsetType | None = UNSET  # noqa: N815
    ephemeralContainers: list[_Container] | UnsetType | None = UNSET  # noqa: N815
    volumes: list[_Volume] | UnsetType | None = UNSET
    schedulingGates: list[_Gate] | UnsetType | None = UNSET  # noqa: N815
    nodeName: _Text = UNSET  # noqa: N815
    hostUsers: bool | UnsetType | None = UNSET  # noqa: N815
    # Only measured: gating reads them later.
    affinity: Raw = Raw()
    tolerations: Raw = Raw()
    topologySpreadConstraints: Raw = Raw()  # noqa: N815
    nodeSelector: Raw = Raw()  # noqa: N815


class PodManifest(Struct, gc=False):
    """A decoded pod."""

    metadata: _Metadata | UnsetType = UNSET
    spec: _Spec | UnsetType = UNSET

    def size(self) -> PodSize:
        """Count the objects that admission reads."""
        spec, metadata = self.spec or _Spec(), self.metadata or _Metadata()
        containers = list(_containers(spec))
        placement = (spec.affinity, spec.tolerations, spec.topologySpreadConstraints, spec.nodeSelector)
        return PodSize(
            containers=len(containers),
            volumes=len(spec.volumes or ()),
            mounts=sum(len(container.volumeMounts or ()) for container in containers),
            variables=sum(len(container.env or ()) for container in containers),
            arguments=sum(len(container.command or ()) + len(container.args or ()) for container in containers),
            gates=len(spec.schedulingGates or ()),
            owners=len(metadata.ownerReferences or ()),
            placement_bytes=sum(len(bytes(raw)) for raw in placement),
        )

    def annotation_size(self) -> int:
        """Return the number of characters of the annotation that names Datasets."""
        annotations = (self.metadata or _Metadata()).annotations or {}
        return len(str(annotations.get(names.ANNOTATION_DATASETS, "")))

    def plain(self) -> dict[str, Any]:
        """Return the fields for the injection, as maps and lists."""
        plain: dict[str, Any] = msgspec.to_builtins(self, enc_hook=_limits)
        for field in ("affinity", "tolerations", "topologySpreadConstraints", "nodeSelector"):
            plain.get("spec", {}).pop(field, None)
        return plain


_DECODER = msgspec.json.Decoder(PodManifest)


def decode_pod(text: bytes) -> PodManifest | Refusal:
    """Decode a pod's JSON. Refuse a pod with too many objects.

    Raises msgspec.DecodeError, RecursionError or UnicodeDecodeError if it does not have a pod's shape.
    """
    # Quotes within a string are escaped, so this counts only members.
    count = text.count(b'"name":')
    if count > _MOST_NAMES:
        return Refusal(
            f"the pod has {count} named objects, and a pod with {names.ANNOTATION_DATASETS} may have {_MOST_NAMES}"
        )
    return _DECODER.decode(text)


def _containers(spec: _Spec) -> Iterator[_Container]:
    for containers in (spec.initContainers, spec.containers, spec.ephemeralContainers):
        yield from containers or ()


def _limits(raw: Raw) -> Any:
    text = bytes(raw)
    return msgspec.json.decode(text) if 0 < len(text) <= _MOST_LIMITS else {}

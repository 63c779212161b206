"""Checks Stoker's annotations and labels of pods and pod templates, as the webhook and the admission hints do. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from stoker_api import names
from stoker_api.jobs.pod_annotations import PodRequest, Refusal, gang_problem, parse_request
from stoker_api.jobs.sampling import parse_sampling_text
from stoker_cli.support.validation.schema_check import unknown_field
from stoker_tuning.documents.errors import Problem, quoted
from stoker_tuning.documents.tree import Path, Tree, written_path

Raw = Mapping[str, Any]
_PREFIX = f"{names.GROUP}/"
_CONTAINERS = ("containers", "initContainers")
_LABELS = (
    names.LABEL_GANG,
    names.LABEL_MANAGED,
    names.LABEL_TRAINING_JOB,
    names.LABEL_DATASET,
    names.LABEL_DATASET_NAMESPACE,
    names.LABEL_NODE_ACCOUNT,
)
_ANYWHERE = (*names.USER_ANNOTATIONS, *names.OWN_ANNOTATIONS)


@dataclass(frozen=True, slots=True)
class FoundTemplate:
    """A pod, or a pod template in any object, with its place in the document."""

    path: Path
    template: Raw

    @property
    def spec(self) -> Raw:
        """The pod's spec."""
        spec: Raw = self.template["spec"]
        return spec

    @property
    def annotations(self) -> Raw:
        """The pod's annotations."""
        return _texts(self.template, "annotations")


def find_templates(value: Any, path: Path = ()) -> Iterator[FoundTemplate]:
    """Yield each mapping with a pod's spec, at any depth: a spec with a list of containers."""
    if isinstance(value, Mapping):
        spec = value.get("spec")
        if isinstance(spec, Mapping) and isinstance(spec.get("containers"), list):
            yield FoundTemplate(path, value)
        for name, child in value.items():
            yield from find_templates(child, (*path, name))
    elif isinstance(value, list):
        for number, child in enumerate(value):
            yield from find_templates(child, (*path, number))


def template_problems(tree: Tree, found: FoundTemplate, namespace: str) -> Iterator[Problem]:
    """Yield what the webhook would refuse, and keys that nothing reads."""
    annotations, labels = found.annotations, _texts(found.template, "labels")
    yield from _unknown(tree, (*found.path, "metadata", "annotations"), annotations, _ANYWHERE)
    yield from _unknown(tree, (*found.path, "metadata", "labels"), labels, _LABELS)
    if names.ANNOTATION_DATASETS in annotations:
        yield from _request_problems(tree, found, labels, namespace)


def _unknown(tree: Tree, path: Path, texts: Raw, known: tuple[str, ...]) -> Iterator[Problem]:
    for key, text in texts.items():
        if key.startswith(_PREFIX) and key not in known:
            yield tree.problem((*path, key), unknown_field(key, list(known)))
        elif key.startswith(_PREFIX) and not isinstance(text, str):
            yield tree.problem((*path, key), "is not text: quote it")


def _request_problems(tree: Tree, found: FoundTemplate, labels: Raw, namespace: str) -> Iterator[Problem]:
    texts = {key: text for key, text in found.annotations.items() if isinstance(text, str)}
    at = (*found.path, "metadata", "annotations")
    request = parse_request(texts, namespace)
    gang = gang_problem({key: str(text) for key, text in labels.items()}, texts)
    if gang is not None:
        yield tree.problem((*found.path, "metadata"), gang.sentence)
    if isinstance(request, Refusal):
        yield tree.problem((*at, _key_of(request.sentence)), request.sentence)
        return
    yield from _container_problems(tree, found, request)
    yield from _sampling_problems(tree, (*at, names.ANNOTATION_SAMPLING), texts, request)


def _key_of(sentence: str) -> str:
    """Return the annotation that a refusal names, else that of the Datasets."""
    return next((key for key in names.USER_ANNOTATIONS if f"{key} " in sentence), names.ANNOTATION_DATASETS)


def _container_problems(tree: Tree, found: FoundTemplate, request: PodRequest) -> Iterator[Problem]:
    if request.containers is None:
        return
    lists = [found.spec.get(field) or () for field in _CONTAINERS]
    known = [str(each.get("name")) for containers in lists for each in containers if isinstance(each, Mapping)]
    path = (*found.path, "metadata", "annotations", names.ANNOTATION_CONTAINERS)
    if not request.containers:
        yield tree.problem(path, f"is empty: its containers are {', '.join(known)}")
    for name in sorted(request.containers - set(known)):
        yield tree.problem(path, f"the pod has no container {quoted(name)}: its containers are {', '.join(known)}")


def _sampling_problems(tree: Tree, path: Path, texts: Mapping[str, str], request: PodRequest) -> Iterator[Problem]:
    text = texts.get(names.ANNOTATION_SAMPLING)
    if text is None:
        return
    try:
        named = parse_sampling_text(text).dataset
    except ValueError as error:
        yield tree.problem(path, str(error))
        return
    known = [name for one in request.datasets for name in (one.name, one.key)]
    if named and named not in known:
        yield tree.problem(path, f"is about the Dataset {quoted(named)}, which the pod does not have")


def template_warnings(tree: Tree, found: FoundTemplate) -> Iterator[Problem]:
    """Yield annotations without effect in a valid template."""
    at, annotations = (*found.path, "metadata", "annotations"), found.annotations
    used = [key for key in names.USER_ANNOTATIONS if key in annotations and key != names.ANNOTATION_DATASETS]
    if names.ANNOTATION_DATASETS not in annotations:
        for key in used:
            yield tree.problem((*at, key), f"has no effect without {names.ANNOTATION_DATASETS}")
        return
    request = parse_request({key: str(text) for key, text in annotations.items()}, "default")
    if isinstance(request, PodRequest):
        for one in request.datasets:
            if one.path is None and not _has_volume(found.spec, one.name):
                text = f"{one.name} has no path, so nothing is mounted: write {one.name}:/data, or mount its claim"
                yield tree.problem((*at, names.ANNOTATION_DATASETS), text)


def _has_volume(spec: Raw, dataset: str) -> bool:
    for volume in spec.get("volumes") or ():
        claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
        attributes = (volume.get("csi") or {}).get("volumeAttributes") or {}
        if dataset in (claim, attributes.get(names.CSI_ATTRIBUTE_DATASET)):
            return True
    return False


def misplaced_warnings(tree: Tree, value: Raw, path: Path) -> Iterator[Problem]:
    """Yield annotations of pods on the object above its pod templates, where nothing reads them."""
    templates = list(find_templates(value, path))
    if not templates or templates[0].path == path:
        return
    for key in _texts(value, "annotations"):
        if key in names.USER_ANNOTATIONS and not any(key in found.annotations for found in templates):
            place = written_path((*templates[0].path, "metadata", "annotations"))
            text = f"has no effect on the {value.get('kind')} itself: write it in {place}"
            yield tree.problem((*path, "metadata", "annotations", key), text)


def _texts(value: Raw, name: str) -> Raw:
    metadata = value.get("metadata")
    texts = metadata.get(name) if isinstance(metadata, Mapping) else None
    return texts if isinstance(texts, Mapping) else {}

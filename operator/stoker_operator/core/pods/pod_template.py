"""Check the parts of a TrainingJob's pod template that the operator reads, and let mounts reach its volumeMounts."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from stoker_api.jobs.trainingjob import TrainingJob
from stoker_api.names import Reason
from stoker_operator.core.fitting.pod_demand import Unmet

MOST_LEVELS = 50  # twice the depth of the deepest field of a pod; JSON writers fail at about 250
CONTAINER_LISTS = ("initContainers", "containers")


def template_problem(training: TrainingJob) -> Unmet | None:
    """Return the first invalid part of the template, with the fix, or None.

    The CRD accepts any pod template, and the API server checks it only when the Job is created. This checks the parts
    that the operator reads before that.
    """
    sentence = next(_problems(training), None)
    return Unmet(Reason.INVALID_SPEC, sentence) if sentence else None


def _problems(training: TrainingJob) -> Iterator[str]:
    metadata, extra = training.spec.template.metadata, training.spec.template.spec.model_extra or {}
    if is_deeper([metadata, extra, training.spec.template.spec.containers], MOST_LEVELS + 1):
        yield f"spec.template has more than {MOST_LEVELS} levels: no field of a pod is nested so deep"
        return
    for field in ("labels", "annotations"):
        if not isinstance(metadata.get(field) or {}, Mapping):
            yield f"spec.template.metadata.{field} must be a map: write for example {field}: {{team: vision}}"
    yield from _container_problems("initContainers", extra.get("initContainers"))
    yield from _container_problems("containers", training.spec.template.spec.containers)


def is_deeper(value: Any, levels: int) -> bool:
    """Return True if maps and lists are nested more than ``levels`` deep. It works without recursion for any depth."""
    here: list[Any] = [value]
    for _ in range(levels):
        inner = (one.values() if isinstance(one, Mapping) else one for one in here if _has_levels(one))
        here = [item for items in inner for item in items]
        if not here:
            return False
    return any(map(_has_levels, here))


def _has_levels(value: Any) -> bool:
    return isinstance(value, Mapping) or _is_list(value)


def _container_problems(field: str, containers: Any) -> Iterator[str]:
    where = f"spec.template.spec.{field}"
    if not _is_list(containers or ()):
        yield f"{where} must be a list: begin each container with a dash"
        return
    for index, container in enumerate(containers or ()):
        if not isinstance(container, Mapping):
            yield f"{where}[{index}] must be a container: write for example {{name: main, image: python}}"
        elif not _is_environment(container.get("env") or ()):
            example = "env: [{name: A, value: b}]"
            yield f"{where}[{index}].env must be a list of names and values: write for example {example}"


def _is_environment(variables: Any) -> bool:
    return _is_list(variables) and all(
        isinstance(one, Mapping) and isinstance(one.get("name"), str) for one in variables
    )


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


# A better tree that the node later mounts over the volume appears in the running container.
HOST_TO_CONTAINER = "HostToContainer"


def propagation_operations(pod: Mapping[str, Any], volumes: Collection[str]) -> Iterator[dict[str, Any]]:
    """Yield JSON patch operations for each mount of ``volumes`` (names) without its own setting."""
    for field in CONTAINER_LISTS:
        for index, container in enumerate(pod.get("spec", {}).get(field) or ()):
            for place, mount in enumerate(container.get("volumeMounts") or ()):
                if mount.get("name") in volumes and _is_open(mount):
                    path = f"/spec/{field}/{index}/volumeMounts/{place}/mountPropagation"
                    yield {"op": "add", "path": path, "value": HOST_TO_CONTAINER}


def _is_open(mount: Mapping[str, Any]) -> bool:
    """Return True if the mount accepts propagation. The API server refuses it together with recursiveReadOnly."""
    return not mount.get("mountPropagation") and mount.get("recursiveReadOnly") in (None, "Disabled")

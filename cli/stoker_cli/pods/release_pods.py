"""The command `stoker release`: annotates held pods, and the operator then removes its gate."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from stoker_api import names
from stoker_cli.errors import CliError
from stoker_cli.pods.subject import NamedObjects, Subject, find_subject
from stoker_kube.errors import Forbidden

Object = Mapping[str, Any]

_AT_ONCE = 16  # concurrent writes
_SHOWN = 10  # pods by name


class ReleasingCluster(NamedObjects, Protocol):
    """Reads pods and jobs, and writes annotations on pods."""

    async def annotate_pod(self, pod: Object, annotations: Mapping[str, str]) -> bool:
        """Write annotations. Return False if the pod is gone. Raises KubeError."""


async def release(cluster: ReleasingCluster, name: str) -> str:
    """Release a held pod, or the held pods of a job, and return a message. Raises CliError."""
    subject = await find_subject(cluster, name)
    held = [pod for pod in subject.pods if is_held(pod)]
    if not held:
        return f"{subject.kind} {subject.name}: Stoker holds no pods, so there is nothing to release."
    slots = asyncio.Semaphore(_AT_ONCE)

    async def free(pod: Object) -> bool:
        async with slots:
            return await cluster.annotate_pod(pod, {names.ANNOTATION_SCHEDULING: "None"})

    try:
        done = await asyncio.gather(*map(free, held))
    except Forbidden as error:
        raise CliError(
            f"You may not release {subject.name}. Ask for the verb patch on pods in namespace {cluster.namespace}, "
            "which the ClusterRole edit includes."
        ) from error
    return _sentence(subject, [pod for pod, there in zip(held, done, strict=True) if there])


def is_held(pod: Object) -> bool:
    """Return True if Stoker's scheduling gate is on a pod."""
    return names.GATE_WARM in _gates(pod)


def _gates(pod: Object) -> list[str]:
    return [str(gate.get("name")) for gate in pod["spec"].get("schedulingGates") or ()]


def _sentence(subject: Subject, pods: Sequence[Object]) -> str:
    pod_names = [str(pod["metadata"]["name"]) for pod in pods]
    more = f" and {len(pod_names) - _SHOWN} more" if len(pod_names) > _SHOWN else ""
    what = f"{', '.join(pod_names[:_SHOWN])}{more}" if pod_names else "nothing, because the pods are gone"
    namespace = subject.name.partition("/")[0]
    lines = [f"Released {what}. Follow with: stoker -n {namespace} why {pod_names[0] if pod_names else subject.name}"]
    other_gates = sorted({gate for pod in pods for gate in _gates(pod)} - {names.GATE_WARM})
    lines += [f"Other scheduling gates still hold: {', '.join(other_gates[:_SHOWN])}."] if other_gates else []
    if subject.kind == "TrainingJob":
        lines.append("New workers are held again, unless spec.scheduling.mode is None.")
    return "\n".join(lines)

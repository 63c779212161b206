"""What specs of a node's pods hint at, and files that these read, in the rows of what the pods do. Pure."""

from collections.abc import Iterable, Mapping

from stoker_api.node_workload import NodeWorkload
from stoker_sidecar.volumes.core.publish import Published
from stoker_sidecar.volumes.core.report_volume import ReportVolume
from stoker_tuning.frameworks.pod_hints import NO_HINTS, FrameworkSource, PodHints


def hints_of_pods(mounted: Iterable[Published], reporting: Iterable[ReportVolume]) -> dict[str, PodHints]:
    """Return what each pod's volumes say of it, by its UID: its first volume that says anything."""
    told = [(row.request.pod_uid, row.request.hints) for row in mounted]
    told += [(volume.pod_uid, volume.hints) for volume in reporting]
    return {uid: hints for uid, hints in reversed(told) if hints != NO_HINTS}


def hinted(row: NodeWorkload, hints: Mapping[str, PodHints]) -> NodeWorkload:
    """Return a pod's row with what its spec hints at, where its report and its processes tell nothing."""
    known = hints.get(row.uid)
    if known is None:
        return row
    values: dict[str, object] = {"gpus": known.gpus or None, "job": known.job}
    if not row.framework:
        values |= {"framework": known.framework, "framework_source": known.framework_source}
    if row.batch_size is None:
        values["batch_size"] = known.batch_size or None
    return row.model_copy(update=values)


def by_files(row: NodeWorkload, frameworks: Mapping[str, str]) -> NodeWorkload:
    """Return a pod's row with the framework that its files are of, by UID, where nothing else tells one."""
    framework = frameworks.get(row.uid, "")
    if row.framework or not framework:
        return row
    return row.model_copy(update={"framework": framework, "framework_source": FrameworkSource.FILES})

"""The Datasets that a held pod waits for, and how far each is: the pod's annotation does not follow them. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any

from stoker_api import names
from stoker_api.dataset import Dataset


def awaited_datasets(pod: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return namespace and name of each Dataset that a held pod names; nothing for one that is not held."""
    if not any(gate.get("name") == names.GATE_WARM for gate in pod["spec"].get("schedulingGates") or ()):
        return []
    text = (pod["metadata"].get("annotations") or {}).get(names.ANNOTATION_DATASETS, "")
    keys = (piece.partition(":")[0].partition("@")[0].strip() for piece in text.split(","))
    pairs = (key.rpartition("/") for key in keys if key)
    return [(home or pod["metadata"]["namespace"], name) for home, _, name in pairs]


def progress_sentences(datasets: Iterable[Dataset]) -> tuple[str, ...]:
    """Say how far each Dataset is."""
    return tuple(_progress(dataset) for dataset in datasets)


def _progress(dataset: Dataset) -> str:
    status = dataset.status
    parts = [status.phase.value if status.phase is not None else "not looked at yet"]
    parts += [f"{status.cached_percent} cached on the nodes that should have it"] if status.cached_percent else []
    parts += [f"whole on {status.warm_nodes} nodes"] if status.warm_nodes else []
    parts += [f"{status.speed}"] if status.speed else []
    parts += [f"ETA {status.eta}"] if status.eta else []
    return f"Dataset {dataset.key}: {', '.join(parts)}."

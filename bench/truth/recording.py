"""A trace from what fanotify saw and what the programs logged: the format of docs/TRAINING-AWARENESS.md. Pure."""

import json
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.truth.fanotify import FileEvent
from stoker_cli.trace import FORMAT

_HEAD = 1024  # bytes of a checkpoint: what names its keys
_CHECKPOINTS = {".pt", ".npz", ".h5"}


def trace_lines(
    files: Sequence[tuple[str, int]], workloads: Mapping[str, Iterable[str]], events: Iterable[dict[str, Any]]
) -> Iterator[str]:
    """Yield the lines of a trace: the header, then what happened in the order of time, from 0.

    ``files``: paths below the data's folder and sizes; ``workloads``: its lines of truth; ``events``: the rest.
    """
    truths = [{**json.loads(line), "w": name} for name, lines in workloads.items() for line in lines]
    first = min(truth["t"] for truth in truths)
    starts = {name: min(truth["t"] for truth in truths if truth["w"] == name) for name in workloads}
    begun = [{"t": start, "w": name, "mounted": True} for name, start in starts.items()]
    ended = [{"t": one["t"], "w": one["w"], "ended": True} for one in truths if one["truth"]["phase"] is None]
    yield json.dumps({"trace": FORMAT, "opens": True, "files": files})
    everything = sorted([*truths, *begun, *ended, *events], key=lambda line: (line["t"], "ended" in line))
    for line in everything:
        yield json.dumps({**line, "t": round(line["t"] - first, 3)}, separators=(",", ":"))


def accesses(
    events: Iterable[FileEvent], sessions: Mapping[int, str], numbers: Mapping[Path, int]
) -> Iterator[dict[str, Any]]:
    """Yield a line for each open of a file of the data, by a process of a workload's session."""
    for event in events:
        workload, number = sessions.get(event.session), numbers.get(event.path)
        if event.opened and workload is not None and number is not None:
            yield {"t": event.seconds, "w": workload, "f": number, "r": event.pid, "by": "fanotify"}


def saves(events: Iterable[FileEvent], folders: Mapping[Path, str]) -> Iterator[dict[str, Any]]:
    """Yield two lines for each checkpoint in a workload's folder.

    When it is begun, by its name; and when it is whole, with its first bytes.
    """
    for event in events:
        workload = folders.get(event.path.parent)
        if workload is None or event.path.suffix not in _CHECKPOINTS:
            continue
        line = {"t": event.seconds, "w": workload, "model": event.path.name}
        if event.created:
            yield {**line, "did": "saving"}
        if event.written:
            with event.path.open("rb") as file:
                yield {**line, "did": "saved", "head": b64encode(file.read(_HEAD)).decode()}

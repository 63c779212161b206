"""The figures of the demo, from the last lines of its programs and from `stoker why`. Pure."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Report = Mapping[str, Any]


def report_of(log: str) -> Report:
    """Parse the last line of a program, in JSON. Raises ValueError if it is missing."""
    for line in reversed(log.splitlines()):
        if line.startswith("{"):
            return dict(json.loads(line))
    raise ValueError("the pod printed no report")


@dataclass(frozen=True)
class Epoch:
    """One epoch of the training: photos per second, share of time waiting for data, seconds, seconds held before."""

    name: str
    job: str
    rate: float
    waiting: float
    seconds: float
    held: float

    @classmethod
    def of(cls, name: str, job: str, report: Report, held: float) -> "Epoch":
        """Return the figures of a report of examples/photos/train.py."""
        seconds = max(float(report["seconds"]), 0.001)  # the resolution of the clock
        return cls(name, job, report["photos"] / seconds, report["waited"] / seconds, seconds, held)

    def cells(self, first: "Epoch") -> list[str]:
        """Return the cells of a row. ``first`` is compared with."""
        times = f"{first.seconds / self.seconds:.1f}x"
        return [self.name, f"{self.rate:.1f}", f"{self.waiting:.0%}", f"{self.seconds:.1f} s", times,
                f"{self.held:.0f} s"]  # fmt: skip


def table(epochs: Sequence[Epoch]) -> list[str]:
    """Return the lines of a table with a row for each epoch."""
    head = ["epoch", "photos/s", "waiting", "time", "speed", "held before"]
    rows = [head, *(epoch.cells(epochs[0]) for epoch in epochs)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows]


@dataclass(frozen=True)
class Verification:
    """What verifying readers saw together."""

    reads: int
    wrong: int
    errors: int
    worst_ms: float

    @classmethod
    def of(cls, reports: Iterable[Report]) -> "Verification":
        """Add up reports of examples/photos/verify.py."""
        known = list(reports)
        reads, wrong, errors = (sum(report[name] for report in known) for name in ("reads", "wrong", "errors"))
        return cls(reads, wrong, errors, max(report["worst_ms"] for report in known))

    def sentence(self) -> str:
        """Return the figures in a sentence."""
        return (
            f"{self.reads:,} reads verified: {self.wrong} with wrong bytes, {self.errors} errors, "
            f"worst stall {self.worst_ms:,.0f} ms."
        )


def without_events(why: str) -> str:
    """Return the output of `stoker why` up to the table of events."""
    return why.split("\n\n", 1)[0].rstrip()


def condition(item: Mapping[str, Any], kind: str, field: str = "status") -> str:
    """Return a field of a condition of an object, or empty if it does not exist."""
    conditions = item.get("status", {}).get("conditions", [])
    return next((str(entry.get(field, "")) for entry in conditions if entry["type"] == kind), "")


def warm_nodes(dataset: Mapping[str, Any]) -> list[str]:
    """Return the names of the nodes with a complete copy."""
    return sorted(row["name"] for row in dataset.get("status", {}).get("nodes", []) if row["phase"] == "Warm")

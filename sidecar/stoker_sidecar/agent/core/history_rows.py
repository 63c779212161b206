"""What a node keeps of its tuning: changes with their outcomes, phases, predictions; as rows of text. Pure."""

import json
from dataclasses import asdict, fields
from enum import StrEnum
from typing import Any, NamedTuple

from stoker_tuning.learning.changes import Change, ChangeOutcome, ChangeVerdict, WindowFigures
from stoker_tuning.learning.foresight import Prediction
from stoker_tuning.vocabulary import AccessPattern, TrainingPhase

# Bytes of one row's text: names come from people, and a knob's value may be long.
MOST_TEXT = 4096
_FIGURES = ("before", "after", "control_before", "control_after")


class HistoryKind(StrEnum):
    """What a row tells of."""

    CHANGE = "change"
    PHASE = "phase"
    PREDICTION = "prediction"


class HistoryRow(NamedTuple):
    """One row: when, in seconds since the epoch; of which Dataset and pod, NAMESPACE/NAME; and the rest as JSON."""

    at: float
    kind: HistoryKind
    dataset: str
    pod: str
    body: str

    def wire(self) -> dict[str, Any]:
        """Return it as it is shown."""
        about: dict[str, Any] = {"at": self.at, "kind": self.kind.value, "dataset": self.dataset, "pod": self.pod}
        try:
            return about | dict(json.loads(self.body))
        except (TypeError, ValueError):  # a disk that lost some bytes of it
            return about


def change_row(outcome: ChangeOutcome) -> HistoryRow:
    """Return the row of a change that came to something."""
    change = outcome.change
    return _row(outcome.at, HistoryKind.CHANGE, change.dataset, change.pod, asdict(outcome))


def phase_row(at: float, dataset: str, pod: str, old: str, new: str, items: float) -> HistoryRow:
    """Return the row of a phase that ended after so many items in all."""
    return _row(at, HistoryKind.PHASE, dataset, pod, {"old": old, "new": new, "items": items})


def prediction_row(at: float, dataset: str, pod: str, prediction: Prediction, came: str, *, hit: bool) -> HistoryRow:
    """Return the row of a prediction that was held to what came."""
    return _row(at, HistoryKind.PREDICTION, dataset, pod, asdict(prediction) | {"came": came, "hit": hit})


def _row(at: float, kind: HistoryKind, dataset: str, pod: str, body: dict[str, Any]) -> HistoryRow:
    return HistoryRow(at, kind, dataset, pod, json.dumps(body, separators=(",", ":")))


def outcome_of(row: HistoryRow) -> ChangeOutcome | None:
    """Return the outcome that a row tells of; None: it is of another kind, or not of this version's form."""
    try:
        body = json.loads(row.body)
        change = dict(body.pop("change"))
        change |= {"phase": TrainingPhase(change["phase"]), "pattern": AccessPattern(change["pattern"])}
        figures = {name: None if body[name] is None else WindowFigures(**body[name]) for name in _FIGURES}
        known = {field.name: body[field.name] for field in fields(ChangeOutcome) if field.name in body}
        verdict = ChangeVerdict(body["verdict"])
        return ChangeOutcome(**(known | figures | {"change": Change(**change), "verdict": verdict}))
    except (KeyError, TypeError, ValueError, AttributeError):
        return None

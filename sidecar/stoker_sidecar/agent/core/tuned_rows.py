"""How a change that came to something is told of in a workload's row. Pure."""

from stoker_api.node_workload import NodeWorkload
from stoker_tuning.learning.changes import ChangeOutcome
from stoker_tuning.rules.spec import KnobValue

_MOST_TEXT = 256
_LEAST, _MOST = -100, 1000


def tuned_row(row: NodeWorkload, outcome: ChangeOutcome) -> NodeWorkload:
    """Return the row with the change, what became of it, and what it gained."""
    gain = max(_LEAST, min(_MOST, round(100 * outcome.gain)))
    return row.model_copy(update={"tuned": told_change(outcome), "gain_percent": gain})


def told_change(outcome: ChangeOutcome) -> str:
    """Return a change and what became of it, for people."""
    change = outcome.change
    back = ", taken back" if outcome.taken_back else ""
    told = f"{change.knob} {_plain(change.old)} to {_plain(change.new)}: {outcome.verdict}{back} ({change.origin})"
    return told[:_MOST_TEXT]


def _plain(value: KnobValue) -> KnobValue:
    """Return a whole number without its decimals: numbers that are found are floats."""
    return int(value) if isinstance(value, float) and value.is_integer() else value

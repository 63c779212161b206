"""How a change that came to something is told of in a workload's row. Pure."""

from stoker_api.nodecache import NodeWorkload
from stoker_tuning.learning.changes import ChangeOutcome

_MOST_TEXT = 256
_LEAST, _MOST = -100, 1000


def tuned_row(row: NodeWorkload, outcome: ChangeOutcome) -> NodeWorkload:
    """Return the row with the change, what became of it, and what it gained."""
    change = outcome.change
    back = ", taken back" if outcome.taken_back else ""
    told = f"{change.knob} {change.old} to {change.new}: {outcome.verdict}{back} ({change.origin})"
    gain = max(_LEAST, min(_MOST, round(100 * outcome.gain)))
    return row.model_copy(update={"tuned": told[:_MOST_TEXT], "gain_percent": gain})

"""Whether a TrainingJob's workers read in the order that their sampling predicts, by what their nodes say. Pure."""

from collections.abc import Sequence

from stoker_api.meta import shortened
from stoker_api.names import Reason
from stoker_api.node_workload import PLUGIN_TROUBLE, READERS_SOUGHT, RECORDS_UNSEEN, NodeWorkload, OrderSource
from stoker_operator.core.conditions import Status
from stoker_orders.following import OrderState

_MOST_SENTENCE = 400


def order_verdict(workloads: Sequence[NodeWorkload]) -> tuple[Status, Reason, str]:
    """Return status, reason and message of the condition Order: one worker that reads otherwise decides."""
    said = [row for row in workloads if row.order]
    wrong = next((row for row in said if row.order == OrderState.WRONG), None)
    if wrong is not None:
        why = shortened(wrong.order_message, _MOST_SENTENCE)
        return "False", Reason.ORDER_WRONG, f"{wrong.pod} reads in another order, and the hint is dropped: {why}"
    known = [row for row in said if row.order == OrderState.KNOWN]
    if not known:
        why = next((row.order_message for row in said if _explains(row)), "")
        too_few = "too little was read to tell whether it is the order that sampling says"
        return "Unknown", Reason.ORDER_UNKNOWN, shortened(why, _MOST_SENTENCE) or too_few
    least = min(row.order_agreement or 0 for row in known)
    counted = f"{len(known)} of {len(workloads)} workers"
    said_by = "they report" if all(row.order_source is OrderSource.REPORT for row in known) else "sampling says"
    return "True", Reason.ORDER_KNOWN, f"{least} % of the last reads of {counted} came as {said_by}"


def _explains(row: NodeWorkload) -> bool:
    """Tell whether a node says more of an order that is not known than that too little was read."""
    told = row.order_message.startswith((PLUGIN_TROUBLE, READERS_SOUGHT, RECORDS_UNSEEN))
    return told or row.order_source is OrderSource.REPORT

"""Status of pods' orders in node workload rows, and the wire format of prefetch windows. Pure."""

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from stoker_api.meta import shortened
from stoker_api.node_caches.node_workload import READERS_SOUGHT, RECORDS_UNSEEN, NodeWorkload, OrderSource
from stoker_orders.following import OrderFollower, OrderState
from stoker_orders.sample_map import SamplePiece
from stoker_orders.sampling_plan import EpochStart
from stoker_sidecar.wire.fetcher_hints import MOST_AHEAD, WHOLE_FILE
from stoker_tuning.training.layout import CHUNK

_MOST_MESSAGE = 256
_PIECE = struct.Struct("<II")
PIECE_BYTES = _PIECE.size
_WHOLE = (WHOLE_FILE,)


@dataclass(frozen=True)
class OrderView:
    """State of a pod's order. ``agreement``: percent of the last reads; ``message``: a sentence.

    ``source``: where the order comes from.
    """

    state: OrderState = OrderState.UNKNOWN
    agreement: int | None = None
    message: str = ""
    source: OrderSource = OrderSource.SPEC


def order_view(follower: OrderFollower, paths: Mapping[int, str], *, in_memory: bool = False) -> OrderView:
    """Return the state. ``paths``: of a difference's files, by inode. ``in_memory``: the next pieces go to memory."""
    difference = follower.difference
    if follower.state is OrderState.WRONG and difference is not None:
        seen, expected = (paths.get(one, f"file {one}") for one in (difference.seen, difference.expected))
        message = (
            f"read {difference.read} was {seen}, where {expected} was about due{_tried(follower)}: look at sampler, "
            "seed, epochs, batch, ranks and files of the sampling"
        )
    elif follower.is_searching:
        # The readers left their earlier position, so the earlier state does not count.
        message = f"{READERS_SOUGHT}: {_epochs(follower.tried)} held against what they read so far"
        return OrderView(OrderState.UNKNOWN, follower.agreement, message)
    elif follower.state is OrderState.KNOWN:
        ahead = ", read ahead from the disk into memory" if in_memory else ""
        message = f"epoch {follower.epoch} of {follower.order.plan.sampler}{ahead}"
    else:
        message = f"{follower.reads} reads were seen, which is too few to tell"
    return OrderView(follower.state, follower.agreement, message)


def unseen_view(start: EpochStart) -> OrderView:
    """Return the state where single record reads are not observable."""
    message = (
        f"{RECORDS_UNSEEN} on a native mount or an overlay, so the order is not checked: it is taken to begin where "
        f"the job says, in epoch {start.epoch} behind {start.position} samples"
    )
    return OrderView(message=message)


def with_order(row: NodeWorkload, view: OrderView) -> NodeWorkload:
    """Return a pod's row with the state of its order."""
    message = shortened(view.message, _MOST_MESSAGE)
    return row.model_copy(
        update={
            "order": view.state.value,
            "order_agreement": view.agreement,
            "order_message": message,
            "order_source": view.source,
        }
    )


def window(pieces: Iterable[SamplePiece], most: int = MOST_AHEAD) -> bytes:
    """Encode the first ``most`` chunks for the fetcher."""
    return b"".join(_PIECE.pack(*each) for each in islice(_chunks(pieces), most))


def chunks_of(piece: SamplePiece) -> Sequence[int]:
    """Return the chunks of the file that a piece touches, or `WHOLE_FILE`."""
    if not piece.length:
        return _WHOLE
    return range(piece.offset // CHUNK, (piece.offset + piece.length - 1) // CHUNK + 1)


def _tried(follower: OrderFollower) -> str:
    """Return a phrase with the number of compared epochs; empty if epochs share one order or none was compared."""
    if not follower.tried or follower.order.is_same_each_epoch:
        return ""
    return f", and {follower.tried} of {_epochs(follower.order.plan.epochs)} looked through"


def _epochs(count: int) -> str:
    return f"{count} epoch was" if count == 1 else f"{count} epochs were"


def _chunks(pieces: Iterable[SamplePiece]) -> Iterator[tuple[int, int]]:
    for piece in pieces:
        for chunk in chunks_of(piece):
            yield piece.file, chunk

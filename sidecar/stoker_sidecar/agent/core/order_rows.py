"""What a node says of the orders in which pods read, and the window of one that its fetcher is told. Pure."""

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from stoker_api.meta import shortened
from stoker_api.node_workload import NodeWorkload, OrderSource
from stoker_orders.following import OrderFollower, OrderState
from stoker_orders.sample_map import SamplePiece
from stoker_sidecar.wire.fetcher_protocol import MOST_AHEAD, WHOLE_FILE
from stoker_tuning.training.layout import CHUNK

_MOST_MESSAGE = 256
_PIECE = struct.Struct("<II")
PIECE_BYTES = _PIECE.size
_WHOLE = (WHOLE_FILE,)


@dataclass(frozen=True)
class OrderView:
    """What is known of a pod's order. ``agreement``: percent of the last reads; ``message``: a sentence.

    ``source``: who said the order.
    """

    state: OrderState = OrderState.UNKNOWN
    agreement: int | None = None
    message: str = ""
    source: OrderSource = OrderSource.SPEC


def order_view(follower: OrderFollower, paths: Mapping[int, str], *, in_memory: bool = False) -> OrderView:
    """Return what is known; ``paths`` of the files of a difference. ``in_memory``: what comes is read into memory."""
    difference = follower.difference
    if follower.state is OrderState.WRONG and difference is not None:
        seen, expected = (paths.get(one, f"file {one}") for one in (difference.seen, difference.expected))
        message = (
            f"read {difference.read} was {seen}, where {expected} was about due: look at sampler, seed, batch, "
            "ranks and files of the sampling"
        )
    elif follower.state is OrderState.KNOWN:
        ahead = ", read ahead from the disk into memory" if in_memory else ""
        message = f"epoch {follower.epoch} of {follower.order.plan.sampler}{ahead}"
    else:
        message = f"{follower.reads} reads were seen, which is too few to tell"
    return OrderView(follower.state, follower.agreement, message)


def with_order(row: NodeWorkload, view: OrderView) -> NodeWorkload:
    """Return a pod's row with what is known of its order."""
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
    """Write the first pieces, as the fetcher takes them."""
    return b"".join(_PIECE.pack(*each) for each in islice(_chunks(pieces), most))


def chunks_of(piece: SamplePiece) -> Sequence[int]:
    """Return the chunks of its file that a piece is in, or `WHOLE_FILE`."""
    if not piece.length:
        return _WHOLE
    return range(piece.offset // CHUNK, (piece.offset + piece.length - 1) // CHUNK + 1)


def _chunks(pieces: Iterable[SamplePiece]) -> Iterator[tuple[int, int]]:
    for piece in pieces:
        for chunk in chunks_of(piece):
            yield piece.file, chunk

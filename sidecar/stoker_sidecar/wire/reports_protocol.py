"""The wire between agent and report listener: one JSON object a line over a unix socket.

The agent says which pods have a report folder, the whole list at each change; the listener says what they have
reported, the pods that said something since it last did, at most once a second.
"""

from collections.abc import Mapping
from dataclasses import fields
from typing import Annotated

from msgspec import Meta, MsgspecError, Struct
from msgspec.json import Decoder, Encoder

from stoker_sidecar.errors import ProtocolError
from stoker_tuning.reports.figures import ReportSummary

MAX_LINE = 4 * 1024 * 1024  # a summary is below 4 kB, and a node has some hundred pods

# A UID, which is the name of a folder.
PodUid = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9-]{0,63}$")]


class Listen(Struct, frozen=True):
    """Listen for these pods, by UID, and for no others."""

    pods: tuple[PodUid, ...]


class Heard(Struct, frozen=True):
    """What pods have reported so far, by UID."""

    pods: Mapping[PodUid, ReportSummary]


_MOST_CHARACTERS = {
    "phase": 40,
    "loss": 40,
    "mean_loss": 40,
    "framework": 40,
    "checkpoint": 256,
    "problem": 256,
    "sampling": 512,
}
_NUMBERS = tuple(field.name for field in fields(ReportSummary) if field.name not in _MOST_CHARACTERS)
_MOST_NUMBER = 2**53

_encoder = Encoder()
_listen, _heard = Decoder(Listen), Decoder(Heard)


def encode(message: Listen | Heard) -> bytes:
    """Write one message as a line."""
    return _encoder.encode(message) + b"\n"


def decode_listen(line: bytes) -> Listen:
    """Read what the agent says. Raises ProtocolError."""
    try:
        return _listen.decode(line)
    except MsgspecError as error:
        raise ProtocolError(f"the agent's word is not understood: {error}") from error


def decode_heard(line: bytes) -> Heard:
    """Read what the listener says. Raises ProtocolError.

    Also for what no listener of ours says: a process that reads what tenants write may have been taken over, and what
    it says becomes a status of the API server.
    """
    try:
        heard = _heard.decode(line)
    except MsgspecError as error:
        raise ProtocolError(f"the report listener's word is not understood: {error}") from error
    for uid, summary in heard.pods.items():
        if not _is_bounded(summary):
            raise ProtocolError(f"the report listener's word of pod {uid} is beyond all bounds")
    return heard


def _is_bounded(summary: ReportSummary) -> bool:
    texts = [len(getattr(summary, name)) <= most for name, most in _MOST_CHARACTERS.items()]
    numbers = [0 <= getattr(summary, name) <= _MOST_NUMBER for name in _NUMBERS if getattr(summary, name) is not None]
    return all(texts) and all(numbers) and (summary.stall_percent is None or summary.stall_percent <= 100)

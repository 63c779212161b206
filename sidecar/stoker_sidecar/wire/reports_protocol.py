"""The protocol between agent and report listener: one JSON object per line over a unix socket.

The agent sends the list of pods with a report folder at each change. The listener sends summaries of pods with news, at
most once a second.
"""

from collections.abc import Mapping
from dataclasses import fields
from itertools import zip_longest
from typing import Annotated

from msgspec import Meta, MsgspecError, Struct
from msgspec.json import Decoder, Encoder

from stoker_sidecar.errors import ProtocolError
from stoker_tuning.reports.figures import ReportSummary

MAX_LINE = 4 * 1024 * 1024
# Pods in one Heard message. A summary with the longest texts has 16 kB.
MOST_HEARD = 100

# A UID, which names a folder.
PodUid = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9-]{0,63}$")]


class Listen(Struct, frozen=True):
    """Listen for exactly these pods, by UID. ``namespaces`` has the namespace of each pod, in the same order."""

    pods: tuple[PodUid, ...]
    namespaces: tuple[Annotated[str, Meta(max_length=63)], ...] = ()

    def by_namespace(self) -> dict[str, str]:
        """Return the namespace of each pod; empty if it is missing."""
        return dict(zip_longest(self.pods, self.namespaces[: len(self.pods)], fillvalue=""))


class Heard(Struct, frozen=True):
    """The summaries of pods' reports, by UID."""

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
    """Encode one message as a line."""
    return _encoder.encode(message) + b"\n"


def decode_listen(line: bytes) -> Listen:
    """Decode the agent's message. Raises ProtocolError."""
    try:
        return _listen.decode(line)
    except MsgspecError as error:
        raise ProtocolError(f"the agent's word is not understood: {error}") from error


def decode_heard(line: bytes) -> Heard:
    """Decode the listener's message. Raises ProtocolError.

    Invalid messages are expected: tenants may have taken over a process that reads their input, and its message becomes
    a status in the API server.
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

"""The wire between agent, file-system servers and fetcher: one JSON object a line over a unix socket.

A request carries ``id`` and ``op``; its reply echoes the ``id``. Only ``watch`` has many replies (progress events,
all with its ``id``). Paths in a ``ReadDone`` are absolute: a version may move to another cache folder.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from stoker_sidecar.errors import ProtocolError
from stoker_sidecar.wire import lines
from stoker_sidecar.wire.credentials import Credentials, credentials_from_wire, credentials_to_wire

# A configure line holds a CA bundle (0.3 MB where it is a system's) and a manifest URL a node; 4 MiB is 10 times that.
MAX_LINE = 4 * 1024 * 1024

Place = Literal["tree", "parts"]


@dataclass(frozen=True)
class Configure:
    """Serve this dataset so. ``dataset``: NodeDataset wire. ``held``: digests mounted on this node."""

    dataset: Mapping[str, Any]
    credentials: Credentials
    held: tuple[str, ...] = ()


@dataclass(frozen=True)
class Remove:
    """Delete a dataset from the disk. Refused (EBUSY) while the last ``Configure`` said that it is held."""

    uid: str


@dataclass(frozen=True)
class Watch:
    """Answer with ``Progress`` at once and on change, at most once a second."""


@dataclass(frozen=True)
class Read:
    """Bring these bytes onto the disk. ``offset`` and ``length`` in bytes; what lies past the end is ignored.

    ``doubt``: where they were said to be they are not, or cannot be read: look before answering the same again.
    """

    uid: str
    digest: str
    ino: int
    offset: int
    length: int
    doubt: bool = False


@dataclass(frozen=True)
class Done:
    """Configure and Remove: done."""


@dataclass(frozen=True)
class ReadDone:
    """The bytes are in ``file``, an absolute path.

    Under ``tree`` the file is whole and stays. Under ``parts`` only the bytes asked for are sure to be there; a name
    in parts/ is never used twice, so a descriptor may be kept by name, but each read must be asked for. A file that is
    gone at open (dropped, or moved into the tree) must be asked for again.
    """

    place: Place
    file: str


@dataclass(frozen=True)
class Failed:
    """``errno`` is what the reader gets; ``message`` is for the log and for people."""

    errno: int
    message: str
    reason: str = ""


# What the fetcher counts for each dataset.
LISTED_OBJECTS = "listedObjects"  # by listings, also by the one that runs
FETCHED_BYTES = "fetchedBytes"  # bodies as they came from the source, also what was thrown away
FETCH_ERRORS = "fetchErrors"  # labelled by reason; after the retries of one request
AHEAD_BYTES = "aheadBytes"  # fetched before any reader asked for them, warm-up not counted
DEMAND_READS = "demandReads"  # requests of file-system servers for bytes
SCRUBBED_BYTES = "scrubbedBytes"
REPAIRED_FILES = "repairedFiles"
EVICTIONS = "evictions"
COUNTS = (
    LISTED_OBJECTS,
    FETCHED_BYTES,
    AHEAD_BYTES,
    FETCH_ERRORS,
    DEMAND_READS,
    SCRUBBED_BYTES,
    REPAIRED_FILES,
    EVICTIONS,
)


class Count(NamedTuple):
    """``value`` since the fetcher started; ``name``: of COUNTS."""

    uid: str
    name: str
    label: str
    value: int


class Notice(NamedTuple):
    """Something to tell once. ``number`` grows, across restarts too; ``uid``: of the dataset, empty for the node."""

    number: int
    uid: str
    reason: str
    message: str


@dataclass(frozen=True)
class Progress:
    """All datasets (NodeDatasetStatus wire, without ``mode``), bytes of the cache folders, and datasets that no one configured.

    ``folders``: CacheFolder wire, the preferred one first. ``notices``: the last few, the oldest first.
    """

    datasets: tuple[Mapping[str, Any], ...]
    used_bytes: int = 0
    capacity_bytes: int = 0
    available_bytes: int = 0
    orphans: tuple[str, ...] = ()
    folders: tuple[Mapping[str, Any], ...] = ()
    counts: tuple[Count, ...] = ()
    notices: tuple[Notice, ...] = ()


Request = Configure | Remove | Watch | Read
Reply = Done | ReadDone | Failed | Progress


def encode_request(request_id: int, request: Request) -> bytes:
    """One line with its newline."""
    return lines.encode({"id": request_id} | _request_body(request))


def decode_request(line: bytes) -> tuple[int, Request]:
    """Raises ProtocolError on anything that is not a request."""
    wire = _parse(line)
    try:
        return int(wire["id"]), _REQUESTS[wire["op"]](wire)
    except (KeyError, TypeError, ValueError) as error:
        raise ProtocolError(f"not a request of the fetcher ({error!r}): {line[:200]!r}") from error


def encode_reply(request_id: int, reply: Reply) -> bytes:
    """One line with its newline."""
    return lines.encode({"id": request_id} | _reply_body(reply))


def decode_reply(line: bytes) -> tuple[int, Reply]:
    """Raises ProtocolError on anything that is not a reply."""
    wire = _parse(line)
    try:
        return int(wire["id"]), _reply(wire)
    except (KeyError, TypeError, ValueError) as error:
        raise ProtocolError(f"not a reply of the fetcher ({error!r}): {line[:200]!r}") from error


def _parse(line: bytes) -> dict[str, Any]:
    try:
        return lines.decode_object(line)
    except ValueError as error:
        raise ProtocolError(f"on the fetcher's socket {error}") from error


def _request_body(request: Request) -> dict[str, Any]:
    match request:
        case Configure(dataset, credentials, held):
            body = {"dataset": dict(dataset), "credentials": credentials_to_wire(credentials), "held": list(held)}
            return {"op": "configure"} | body
        case Remove(uid):
            return {"op": "remove", "uid": uid}
        case Watch():
            return {"op": "watch"}
        case Read():
            return {"op": "read"} | vars(request)


_REQUESTS: dict[str, Any] = {
    "configure": lambda w: Configure(dict(w["dataset"]), credentials_from_wire(w["credentials"]), tuple(w["held"])),
    "remove": lambda w: Remove(str(w["uid"])),
    "watch": lambda w: Watch(),
    "read": lambda w: Read(
        str(w["uid"]), str(w["digest"]), int(w["ino"]), int(w["offset"]), int(w["length"]), bool(w["doubt"])
    ),
}


def _reply_body(reply: Reply) -> dict[str, Any]:
    match reply:
        case Done():
            return {"ok": True}
        case ReadDone(place, file):
            return {"ok": True, "place": place, "file": file}
        case Failed(errno, message, reason):
            return {"ok": False, "errno": errno, "message": message, "reason": reason}
        case Progress():
            return {
                "event": "progress",
                "datasets": [dict(dataset) for dataset in reply.datasets],
                "usedBytes": reply.used_bytes,
                "capacityBytes": reply.capacity_bytes,
                "availableBytes": reply.available_bytes,
                "orphans": list(reply.orphans),
                "folders": [dict(folder) for folder in reply.folders],
                "counts": reply.counts,
                "notices": reply.notices,
            }


def _reply(wire: Mapping[str, Any]) -> Reply:
    if wire.get("event") == "progress":
        return Progress(
            tuple(wire["datasets"]),
            int(wire["usedBytes"]),
            int(wire["capacityBytes"]),
            int(wire["availableBytes"]),
            tuple(wire["orphans"]),
            tuple(wire["folders"]),
            tuple(Count(*row) for row in wire["counts"]),
            tuple(Notice(*row) for row in wire["notices"]),
        )
    if not wire["ok"]:
        return Failed(int(wire["errno"]), str(wire["message"]), str(wire.get("reason", "")))
    return ReadDone(wire["place"], str(wire["file"])) if "place" in wire else Done()

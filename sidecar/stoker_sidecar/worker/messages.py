"""What fetcher and workers say to each other, as rows whose first word says what they are.

Fetcher: ``open`` source number, Source, credentials; ``close`` number; ``fetch`` job, source number, Piece; ``cancel`` job; ``ping``.
Worker: ``arrived`` job, bytes; ``done`` job, Fetched; ``failed`` job, error; ``pong``. A job is answered once, even when cancelled.
"""

from typing import Any

from stoker_api.names import Reason
from stoker_sidecar import errors
from stoker_sidecar.errors import InternalError, SidecarError

OPEN, CLOSE, FETCH, CANCEL, PING = "open", "close", "fetch", "cancel", "ping"
ARRIVED, DONE, FAILED, PONG = "arrived", "done", "failed", "pong"


def error_to_wire(error: BaseException) -> dict[str, Any]:
    """What is not of the sidecar's tree becomes an InternalError."""
    known = error if isinstance(error, SidecarError) else InternalError(f"a fetch failed: {error!r}")
    return {"kind": type(known).__name__, **vars(known)}


def error_from_wire(wire: dict[str, Any]) -> SidecarError:
    """The same error; an InternalError for a kind that is not known here."""
    fields = dict(wire)
    kind = getattr(errors, fields.pop("kind"), InternalError)
    error: SidecarError = kind.__new__(kind, fields["message"])
    vars(error).update(fields, reason=Reason(fields["reason"]))
    return error

"""How long a reader waits for a source that fails temporarily, and the pauses between attempts. Pure."""

from dataclasses import dataclass

from stoker_api.backoff import BackoffPolicy
from stoker_sidecar.errors import (
    DeniedEarlier,
    EndpointUnreachable,
    InvalidCredentials,
    ServerError,
    SidecarError,
    Throttled,
)

# Seconds. Less than a FUSE server waits for the fetcher (2 minutes), so that the reader gets the source's error.
PATIENCE = 110.0
_PAUSES = BackoffPolicy(base=0.5, cap=5.0)
_LEAST = 0.1  # share of a pause that is always waited
_TURN = 0.5  # seconds over which readers spread that wait for the same turn
# A body that is damaged again and again, and a full disk, do not heal while a reader waits.
_OF_THE_SOURCE = (EndpointUnreachable, InvalidCredentials, ServerError, Throttled)


@dataclass
class ReaderPatience:
    """The attempts of one read. ``most``: seconds from its beginning; ``began``: of a monotonic clock."""

    most: float
    began: float
    _attempts: int = 0
    _waited: float = 0.0

    def pause(self, error: SidecarError, now: float, uniform: float) -> float | None:
        """Return the seconds until the next attempt; None: the reader gets the error. ``uniform``: in [0, 1)."""
        if isinstance(error, DeniedEarlier):
            pause = error.retry_after + uniform * _TURN
        elif error.temporary and isinstance(error, _OF_THE_SOURCE):
            pause = _PAUSES.delay(self._attempts, _LEAST + (1 - _LEAST) * uniform, error.retry_after)
        else:
            return None
        if max(self._waited, now - self.began) + pause > self.most:
            return None
        self._attempts += 1
        self._waited += pause
        return pause

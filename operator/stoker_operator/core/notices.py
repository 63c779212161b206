"""When a held pod's reason is worth writing: an annotation as numbers move, an event when something else is true."""

from dataclasses import dataclass

from stoker_operator.core.explain import Explanation

# Seconds between two writes of one pod's annotation while only numbers move.
LEAST_INTERVAL = 10.0


@dataclass(frozen=True)
class HoldNotice:
    """What to write now. ``again``: seconds after which there will be more, None when not."""

    annotate: bool = False
    event: bool = False
    again: float | None = None


@dataclass
class _Written:
    why: Explanation
    at: float
    failed: bool = False


class NoticeBook:
    """A memory of what was written about each held pod. ``now`` in seconds."""

    def __init__(self) -> None:
        self._written: dict[str, _Written] = {}

    def consider(self, uid: str, annotation: str, why: Explanation, now: float) -> HoldNotice:
        """Return what to write about a pod whose annotation is ``annotation``; counts as written from then on."""
        last = self._written.get(uid)
        if last is None:
            self._written[uid] = _Written(why, now)
            # A pod that has an annotation already was announced by the operator's earlier life.
            return HoldNotice(annotate=annotation != why.sentence, event=not annotation)
        if last.why.detail_key == why.detail_key:
            failed, last.failed = last.failed, False
            return HoldNotice(annotate=failed)
        wait = LEAST_INTERVAL - (now - last.at)
        if last.why.coarse_key == why.coarse_key and wait > 0:
            return HoldNotice(again=wait)
        event = last.why.coarse_key != why.coarse_key
        self._written[uid] = _Written(why, now)
        return HoldNotice(annotate=True, event=event)

    def failed(self, uid: str) -> None:
        """Take what was written last for not written; an event was not part of it."""
        if uid in self._written:
            self._written[uid].failed = True

    def forget(self, uid: str) -> None:
        """Forget a pod that is held no more."""
        self._written.pop(uid, None)

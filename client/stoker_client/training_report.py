"""Reports a training loop's progress a few times a second at most, and measures its wait for data."""

from __future__ import annotations

import operator
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from threading import Lock
from typing import Any, Generic, TypeVar

from stoker_client.internal.guard import found, quiet
from stoker_client.internal.order_text import order_text, sampler_of
from stoker_client.internal.ranks import place_in_world
from stoker_client.internal.report_socket import ReportSocket, encode

_SECONDS = 1.0  # between two lines, except for news
_NEWS_AT_ONCE = 5.0  # lines with news; one more is allowed each second
_DAY = 86_400.0  # maximum of seconds in a line
_SUMS = ("wait_seconds", "compute_seconds", "items")  # since the rank's previous line
_NEWS = ("phase", "split", "epoch", "epochs", "saved", "loaded", "sampling")
_NUMBERS = ("loss", "learning_rate")
_TEXTS = {"phase": 40, "split": 40, "saved": 512, "loaded": 512, "kind": 40, "framework": 40, "sampling": 512}

Batch = TypeVar("Batch")


class TrainingReport:
    """The reports of one training process, in the fields of docs/guides/reports.md.

    Without a socket or a reader, all methods do nothing. ``socket`` defaults to the pod's. ``clock`` counts seconds.
    ``rank`` and ``world_size`` are as with samplers.
    """

    def __init__(
        self,
        *,
        framework: str | None = None,
        rank: int | None = None,
        world_size: int | None = None,
        socket: ReportSocket | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.clock = clock
        self._socket = ReportSocket() if socket is None else socket
        self._given = rank, world_size
        self._framework = framework
        self._pending: dict[str, Any] = {}
        self._told: dict[str, Any] = {}  # values of news fields that were reported last
        self._lock = Lock()
        self._last = self._refilled = clock() - _SECONDS
        self._news = _NEWS_AT_ONCE
        self._step = 0

    @property
    def _place(self) -> tuple[int | None, int | None]:
        """The current rank and world size. The report may be created before its process knows them."""
        try:
            return place_in_world(*self._given)
        except ValueError:  # contradictory variables: training continues, without ranks in its reports
            return None, None

    @quiet
    def say(self, **said: Any) -> None:
        """Record values, such as ``say(epoch=3, loss=loss, learning_rate=1e-3)``. A line follows at the next interval.

        Seconds and items add up until then. For other fields, the last value counts. A loss may be a tensor: reading it
        makes an accelerator wait, so it is read only for a line. Never raises, never waits.
        """
        if self._socket and self._lock.acquire(blocking=False):  # do not wait for another thread's call
            try:
                # Detach a tensor from its graph, so that the step can free that memory.
                self._take({name: _detached(value) for name, value in said.items() if value is not None})
            finally:
                self._lock.release()

    @quiet
    def flush(self) -> None:
        """Send pending values, as at the end of a training. Never raises, never waits."""
        if self._socket and self._lock.acquire(blocking=False):
            try:
                self._send()
            finally:
                self._lock.release()

    def loader(
        self,
        source: Iterable[Batch],
        *,
        split: str = "train",
        batch_size: int | None = None,
        files: Mapping[str, Any] | None = None,
        dataset: str = "",
    ) -> ReportedLoader[Batch]:
        """Wrap an iterable of batches. Measure the wait for each, and count batches and steps.

        For a training DataLoader, report each epoch's order like ``order_of``. ``batch_size`` defaults to that of the
        source, if it has one.
        """
        if batch_size is None:
            batch_size = getattr(source, "batch_size", None)

        def begin() -> None:
            if split == "train":
                self.order_of(source, files=files, dataset=dataset)

        return ReportedLoader(self, source, split, batch_size, begin)

    @quiet
    def order_of(
        self,
        loader: Any,
        *,
        files: Mapping[str, Any] | None = None,
        dataset: str = "",
        epoch: int | None = None,
    ) -> None:
        """Report the order of a PyTorch DataLoader's next epoch, if it is known. Never raises.

        Known are the samplers of this package, DistributedSampler and SequentialSampler of PyTorch, and the seeded
        samplers of Accelerate and the Trainer of transformers. ``files`` and ``dataset`` are as in ``order``. ``epoch``
        is the epoch that an Accelerate loader gets after this call and before its next iteration.
        """
        sampler = sampler_of(loader, epoch)
        data, batch, workers = (found(loader, name) for name in ("dataset", "batch_size", "num_workers"))
        if sampler is not None:
            batch = batch or found(loader, "batch_sampler", "batch_size") or 1
            self.order(sampler, data, batch_size=batch, workers=workers or 0, files=files, dataset=dataset)

    @quiet
    def order(
        self,
        sampler: Any,
        data: Any = None,
        *,
        batch_size: int = 1,
        workers: int = 0,
        files: Mapping[str, Any] | None = None,
        dataset: str = "",
    ) -> None:
        """Report the order of a sampler's next iteration, so that the node can prefetch. Never raises.

        ``workers`` is the number of processes that each load a batch at the same time. ``files`` is the layout of
        samples, as in docs/guides/known-orders.md; by default ``data`` is like torchvision's ImageFolder. ``dataset``
        is the name of the Stoker Dataset, if the pod has several.
        """
        if not self._socket:
            return
        text = order_text(sampler, data, self._place, batch=batch_size, loaders=workers, files=files, dataset=dataset)
        if text or self._told.get("sampling"):
            self.say(sampling=text)

    def next_step(self) -> int:
        """Count a step of the run, and return its number."""
        self._step += 1
        return self._step

    def start_at(self, step: int) -> None:
        """Continue counting from this step in a resumed run."""
        self._step = step

    def _take(self, said: dict[str, Any]) -> None:
        if "split" in said and self._told.get("split", said["split"]) != said["split"]:
            # Count batches of training and validation separately, so that no line mixes them.
            if self._pending and self._may_tell(news=True):
                self._send()
            for name in ("batch", "step", "loss"):
                self._pending.pop(name, None)
        back = "split" in said and "phase" not in said and self._told.pop("phase", None) is not None
        if back:  # such as from SaveCheckpoint; the node infers the phase from reads again
            self._pending.pop("phase", None)
        news = back or any(name in said and self._told.get(name) != said[name] for name in _NEWS)
        self._told.update({name: said[name] for name in _NEWS if name in said})
        for name, value in said.items():
            self._pending[name] = value + self._pending.get(name, 0) if name in _SUMS else value
        if self._may_tell(news):
            self._send()

    def _may_tell(self, news: bool) -> bool:
        now = self.clock()
        self._news = min(_NEWS_AT_ONCE, self._news + now - self._refilled)
        self._refilled = now
        if now - self._last >= _SECONDS:
            return True
        if not news or self._news < 1:
            return False
        self._news -= 1
        return True

    def _send(self) -> None:
        """Send pending values. Keep them on failure for the next line."""
        self._last = self.clock()
        always = {**dict(zip(("rank", "world_size"), self._place)), "framework": self._framework}
        line = {name: _plain(name, value) for name, value in {**always, **self._pending}.items()}
        if self._pending:
            data = encode({name: value for name, value in line.items() if value is not None})
            if not data or self._socket.send(data):  # drop values that no line can hold
                self._pending.clear()


class ReportedLoader(Generic[Batch]):
    """Yields and reports the batches of another loader, and forwards all other attributes to it."""

    def __init__(
        self,
        report: TrainingReport,
        source: Iterable[Batch],
        split: str,
        batch_size: int | None,
        begin: Callable[[], None] = lambda: None,
    ) -> None:
        self._report = report
        self._source = source
        self._split = split
        self._batch_size = batch_size
        self._begin = begin

    def __len__(self) -> int:
        """Return the number of batches of the source."""
        return len(self._source)  # type: ignore[arg-type] # raises as the source does

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the source."""
        if name.startswith("__") or "_source" not in self.__dict__:
            raise AttributeError(name)
        return getattr(self._source, name)

    def __iter__(self) -> Iterator[Batch]:
        """Start the source again, and start the wait for its first batch."""
        self._begin()  # before its workers read the first batches
        meter = BatchMeter(self._report)
        for number, batch in enumerate(self._source):
            meter.began()
            yield batch
            step = self._report.next_step() if self._split == "train" else None
            meter.ended(split=self._split, batch=number, step=step, batch_size=self._batch_size)


class BatchMeter:
    """Measures two moments of each batch: its arrival, and the end of its step. The time between is the wait."""

    def __init__(self, report: TrainingReport) -> None:
        self._report = report
        self._ended = report.clock()
        self._began: float | None = None

    def restart(self) -> None:
        """Discard the time before now, as at the start of an epoch."""
        self._ended, self._began = self._report.clock(), None

    def began(self) -> None:
        """Record that a batch has arrived."""
        self._began = self._report.clock()

    def ended(self, **said: Any) -> None:
        """Record the end of its step, and report it. Without ``began``, the report has no seconds."""
        now, began = self._report.clock(), self._began
        if began is not None:
            said.update(wait_seconds=began - self._ended, compute_seconds=now - began)
        self._ended, self._began = now, None
        self._report.say(**said)


def _detached(value: Any) -> Any:
    return value.detach() if hasattr(value, "detach") else value


def _plain(name: str, value: Any) -> Any:
    """Return a value as JSON, within the protocol's bounds; None for an invalid one."""
    if value is None:
        return None
    try:
        if name in _TEXTS:
            return str(value)[: _TEXTS[name]]
        if name in _NUMBERS:
            return float(value)
        return min(float(value), _DAY) if name.endswith("_seconds") else operator.index(value)
    except Exception:  # noqa: BLE001 -- a tensor's library may raise anything
        return None

"""Says what a training loop does, some times a second at most, and measures what it waits for data."""

from __future__ import annotations

import operator
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from threading import Lock
from typing import Any, Generic, TypeVar

from stoker_client.guard import found, quiet
from stoker_client.order_text import order_text, sampler_of
from stoker_client.ranks import place_in_world
from stoker_client.report_socket import ReportSocket, encode

_SECONDS = 1.0  # between two lines, unless there is news
_NEWS_AT_ONCE = 5.0  # lines with news, of which one more comes back each second
_DAY = 86_400.0  # what a line may say of seconds
_SUMS = ("wait_seconds", "compute_seconds", "items")  # since the rank's line before
_NEWS = ("phase", "split", "epoch", "epochs", "saved", "loaded", "sampling")
_NUMBERS = ("loss", "learning_rate")
_TEXTS = {"phase": 40, "split": 40, "saved": 512, "loaded": 512, "kind": 40, "framework": 40, "sampling": 512}

Batch = TypeVar("Batch")


class TrainingReport:
    """What one process of a training says of itself, in the fields of docs/REPORTS.md.

    Where no socket is, or nobody reads it, everything here does nothing. ``socket``: left out, the pod's. ``clock``
    counts seconds. ``rank`` and ``world_size`` as with samplers.
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
        self._told: dict[str, Any] = {}  # of what is news when it changes
        self._lock = Lock()
        self._last = self._refilled = clock() - _SECONDS
        self._news = _NEWS_AT_ONCE
        self._step = 0

    @property
    def _place(self) -> tuple[int | None, int | None]:
        """Rank and world size, as they are now: a report may be made before its process knows them."""
        try:
            return place_in_world(*self._given)
        except ValueError:  # variables that do not fit: training goes on all the same, and says no ranks
            return None, None

    @quiet
    def say(self, **said: Any) -> None:
        """Take note, such as ``say(epoch=3, loss=loss, learning_rate=1e-3)``; a line goes out when it is time for one.

        Seconds and items add up until then, of all else the last word counts. A loss may be a tensor: it is read, which
        makes an accelerator wait, only when a line goes out. Never raises, never waits.
        """
        if self._socket and self._lock.acquire(blocking=False):  # a thread that is just saying something is not awaited
            try:
                # Of a tensor without what it was computed from: that memory is free once the step is done.
                self._take({name: _detached(value) for name, value in said.items() if value is not None})
            finally:
                self._lock.release()

    @quiet
    def flush(self) -> None:
        """Send what was not sent yet, as at the end of a training. Never raises, never waits."""
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
        """Wrap what yields batches: it measures the seconds waited for each, and counts batches and steps.

        Of a DataLoader that trains, each epoch's order is said as ``order_of`` does. ``batch_size``: left out, that of
        the source, if it says one.
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
        """Say in which order a PyTorch DataLoader reads in its next epoch, if that is known. Never raises.

        Known are the samplers of this package, DistributedSampler and SequentialSampler of PyTorch, and those of
        Accelerate and the Trainer of transformers that have a seed. ``files`` and ``dataset`` as in ``order``.
        ``epoch``: what somebody sets a loader of Accelerate to after this and before its next iteration.
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
        """Say in which order a sampler reads in its next iteration: the node then has files ready. Never raises.

        ``workers``: processes that load a batch each at the same time. ``files``: how samples lie in files, as in
        docs/ORDERS.md; left out, ``data`` is a dataset like torchvision's ImageFolder. ``dataset``: the name of the
        Dataset of Stoker, where the pod has several.
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
        """Count steps on from here, where a run was resumed."""
        self._step = step

    def _take(self, said: dict[str, Any]) -> None:
        if "split" in said and self._told.get("split", said["split"]) != said["split"]:
            # Batches of training and of validation are counted apart, so that they are not in one line.
            if self._pending and self._may_tell(news=True):
                self._send()
            for name in ("batch", "step", "loss"):
                self._pending.pop(name, None)
        back = "split" in said and "phase" not in said and self._told.pop("phase", None) is not None
        if back:  # such as from SaveCheckpoint: what is read says the phase again
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
        """Send what is pending, and keep it where it cannot be sent: the next line says it as well."""
        self._last = self.clock()
        always = {**dict(zip(("rank", "world_size"), self._place)), "framework": self._framework}
        line = {name: _plain(name, value) for name, value in {**always, **self._pending}.items()}
        if self._pending:
            data = encode({name: value for name, value in line.items() if value is not None})
            if not data or self._socket.send(data):  # what no line can say is not tried for ever
                self._pending.clear()


class ReportedLoader(Generic[Batch]):
    """Yields the batches of another one and reports them; everything else about it is that other one's."""

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
        """Return how many batches the source says that it has."""
        return len(self._source)  # type: ignore[arg-type] # raises as the source does

    def __getattr__(self, name: str) -> Any:
        """Return what the source has."""
        if name.startswith("__") or "_source" not in self.__dict__:
            raise AttributeError(name)
        return getattr(self._source, name)

    def __iter__(self) -> Iterator[Batch]:
        """Begin the source anew; its first batch is waited for from here on."""
        self._begin()  # before its workers read the first batches
        meter = BatchMeter(self._report)
        for number, batch in enumerate(self._source):
            meter.began()
            yield batch
            step = self._report.next_step() if self._split == "train" else None
            meter.ended(split=self._split, batch=number, step=step, batch_size=self._batch_size)


class BatchMeter:
    """Two moments of each batch: when it had come, and when the work on it was done; between them was waited."""

    def __init__(self, report: TrainingReport) -> None:
        self._report = report
        self._ended = report.clock()
        self._began: float | None = None

    def restart(self) -> None:
        """Count nothing of what was before now, as at the begin of an epoch."""
        self._ended, self._began = self._report.clock(), None

    def began(self) -> None:
        """Note that a batch is there."""
        self._began = self._report.clock()

    def ended(self, **said: Any) -> None:
        """Note that the work on it is done, and report it; without ``began`` no seconds are said."""
        now, began = self._report.clock(), self._began
        if began is not None:
            said.update(wait_seconds=began - self._ended, compute_seconds=now - began)
        self._ended, self._began = now, None
        self._report.say(**said)


def _detached(value: Any) -> Any:
    return value.detach() if hasattr(value, "detach") else value


def _plain(name: str, value: Any) -> Any:
    """Return a value as JSON has it, within the protocol's bounds; None for what is none."""
    if value is None:
        return None
    try:
        if name in _TEXTS:
            return str(value)[: _TEXTS[name]]
        if name in _NUMBERS:
            return float(value)
        return min(float(value), _DAY) if name.endswith("_seconds") else operator.index(value)
    except Exception:  # noqa: BLE001 -- a tensor's library may raise anything, and training is not to end by it
        return None

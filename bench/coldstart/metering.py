"""Which task of an event loop took how much CPU."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Awaitable, Coroutine, Generator
from types import TracebackType
from typing import Any


class TaskMeter:
    """CPU seconds of the loop's thread, by the name of the task that took them."""

    def __init__(self) -> None:
        self.spent: defaultdict[str, float] = defaultdict(float)
        self.longest: dict[str, float] = {}  # of one step

    def install(self, loop: asyncio.AbstractEventLoop) -> None:
        """Meter every task that the loop makes from now on."""
        loop.set_task_factory(lambda its, work, **options: asyncio.Task(_Metered(work, self), loop=its, **options))


class _Metered(Coroutine[Any, Any, Any]):
    """A coroutine whose steps are timed."""

    def __init__(self, work: Any, meter: TaskMeter) -> None:
        self._work = work
        self._meter = meter

    def send(self, value: Any) -> Any:
        """Make a step."""
        began = time.thread_time()
        try:
            return self._work.send(value)
        finally:
            self._note(time.thread_time() - began)

    def throw(self, kind: Any, value: Any = None, trace: TracebackType | None = None) -> Any:
        """Make a step with an error."""
        return self._work.throw(kind) if value is None else self._work.throw(kind, value, trace)

    def close(self) -> None:
        """End it."""
        self._work.close()

    def __await__(self) -> Generator[Any, Any, Any]:
        work: Awaitable[Any] = self._work
        return work.__await__()

    def _note(self, seconds: float) -> None:
        task = asyncio.current_task()
        name = task.get_name() if task is not None else ""
        self._meter.spent[name] += seconds
        self._meter.longest[name] = max(seconds, self._meter.longest.get(name, 0.0))

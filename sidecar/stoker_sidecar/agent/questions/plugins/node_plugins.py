"""The plug-ins of a node. It asks them questions, and leaves out those with wrong answers."""

import asyncio
import logging
import time
from array import array
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from stoker_api.node_caches.nodecache_status import NodeOrderPlugin, NodePlugin
from stoker_orders.predictors.interface import OrderQuestion
from stoker_plugins.discovery import PluginKind
from stoker_plugins.framework_question import FileHead, FrameworkQuestion
from stoker_plugins.order_questions import EpochQuestion, LoadQuestion
from stoker_plugins.questions import PluginQuestion
from stoker_sidecar.agent.questions.plugins.plugin_standing import (
    AGAIN_SECONDS,
    JudgedAnswer,
    PluginStanding,
    after,
    judged,
)
from stoker_sidecar.threads import in_thread
from stoker_sidecar.volumes.synchronization import Changes
from stoker_sidecar.wire.plugins_protocol import MOST_LINE, SOCKET, ToldAnswer, decode_told, encode_question
from stoker_tuning.frameworks.answers import PluginAnswer, PluginRefusedError
from stoker_tuning.frameworks.builtin_plugins import BUILT_IN

# Seconds that a question may wait for that of an earlier agent and for its asker's start, and more for each plug-in.
_SECONDS, _FOR_A_PLUGIN = 90.0, 2.0


class AskedPlugins(NamedTuple):
    """The answers, and why some are missing; ``trouble`` is empty if all are present."""

    told: tuple[ToldAnswer, ...]
    trouble: str = ""


class PluginLink:
    """Asks plug-ins through the asker's ``socket``."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket

    async def ask(self, names: Sequence[str], question: PluginQuestion[object]) -> AskedPlugins:
        """Ask these plug-ins. Raises only CancelledError.

        If the asker ends early, the plug-in that it was asking is refused, and the next ones have no answer.
        """
        told: list[ToldAnswer] = []
        begun = 0.0
        trouble = "the asker ended early"
        try:
            async with asyncio.timeout(_SECONDS + (question.seconds + _FOR_A_PLUGIN) * len(names)):
                reader, writer = await asyncio.open_unix_connection(str(self._socket), limit=MOST_LINE)
                try:
                    writer.write(encode_question(names, question.mapping()))
                    await writer.drain()
                    begun = time.monotonic()
                    async for answer in _answers(reader, names, question.most_bytes):
                        told.append(replace(answer, seconds=time.monotonic() - begun))
                        begun = time.monotonic()
                finally:
                    writer.close()
        except TimeoutError:
            trouble = "the asker does not end"
        except (OSError, ValueError) as error:  # ValueError: also a line beyond the limit
            trouble = f"the asker's answer cannot be read: {error}"
        missing = [name for name in names if name not in {answer.name for answer in told}]
        if not missing:
            return AskedPlugins(tuple(told))
        if begun:
            why = f"{trouble} while it was asked"
            told.append(ToldAnswer(missing[0], "", refused=why, seconds=time.monotonic() - begun))
        return AskedPlugins(tuple(told), trouble)


async def _answers(reader: asyncio.StreamReader, names: Sequence[str], most: int) -> AsyncIterator[ToldAnswer]:
    """Yield at most one answer per name, each of ``most`` bytes. Raises OSError and ValueError."""
    count, said = 0, bytearray()
    while count < len(names) and (line := await reader.readline()):
        part = decode_told(line, names)
        said += part.said
        if len(said) > most:
            raise ValueError(f"it is larger than {most} bytes")
        if part.refused or not part.said:
            yield replace(part, said=bytes(said))
            count, said = count + 1, bytearray()


if TYPE_CHECKING:
    from stoker_tuning.documents.profile_models import TuningDocument

log = logging.getLogger(__name__)
ANSWERED, REFUSED = "answered", "refused"
A = TypeVar("A")


class PluginKey(NamedTuple):
    """A plug-in of a node."""

    kind: PluginKind
    name: str


class NodePlugins:
    """The plug-ins that this node may ask. Call ``run``. Not thread-safe.

    Marks ``changes`` when a plug-in has other rules or another error. ``clock``: monotonic, in seconds.
    """

    def __init__(
        self,
        link: PluginLink | None = None,
        frameworks: Sequence[str] = (),
        orders: Sequence[str] = (),
        changes: Changes | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._link = link
        self._changes = changes or Changes()
        self._clock = clock
        keys = [PluginKey(PluginKind.FRAMEWORK, name) for name in frameworks]
        keys += [PluginKey(PluginKind.ORDER, name) for name in orders]
        self._standings = {key: PluginStanding(key.name) for key in keys}
        self._turns = {kind: asyncio.Lock() for kind in PluginKind}
        self._news = Changes()
        self.counts: Counter[tuple[PluginKey, str]] = Counter()  # by result
        self.seconds: defaultdict[PluginKey, float] = defaultdict(float)

    def rows(self) -> tuple[NodePlugin, ...]:
        """Return the rows of the framework plug-ins that the node asked."""
        return tuple(one.framework_row() for one in self._of(PluginKind.FRAMEWORK).values() if one.asked)

    def order_rows(self) -> tuple[NodeOrderPlugin, ...]:
        """Return the rows of the order plug-ins that the node asked, or tried to load."""
        return tuple(one.order_row() for one in self._of(PluginKind.ORDER).values() if one.asked)

    def wrong(self) -> Mapping[PluginKey, bool]:
        """Return whether a plug-in that the node asked has an error."""
        return {key: bool(one.wrong) for key, one in self._standings.items() if one.asked}

    def documents(self) -> "tuple[TuningDocument, ...]":
        """Return the rules and templates of all plug-ins that are not left out."""
        return tuple(one.document for one in self._standings.values() if one.document is not None)

    async def ask(self, files: Sequence[FileHead]) -> list[PluginAnswer]:
        """Return the answers of framework plug-ins about files, without those that are left out."""
        names = [name for name, one in self._of(PluginKind.FRAMEWORK).items() if not one.message]
        answers = await self._ask(names, FrameworkQuestion(tuple(files)))
        return [one.answer for one in answers if one.answer is not None]

    async def order(self, name: str, question: OrderQuestion) -> "array[int]":
        """Return an epoch's order from a plug-in. Raises PluginRefusedError with a sentence."""
        if name not in self._of(PluginKind.ORDER):
            raise PluginRefusedError(
                "this node may not ask it: name it in sidecar.orderPlugins of the chart (docs/guides/plugins.md)"
            )
        answers = await self._ask([name], EpochQuestion(question))
        if not answers:
            raise PluginRefusedError("no asker of plug-ins answers")
        if answers[0].answer is None:
            raise PluginRefusedError(answers[0].refused)
        return answers[0].answer

    async def run(self) -> None:
        """Fetch the rules of plug-ins and load order plug-ins, now and after failures, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for kind in PluginKind:
                tasks.create_task(self._run(kind))

    async def _run(self, kind: PluginKind) -> None:
        # The rules of built-in plug-ins are documents.
        await self._look(kind, [name for name in self._of(kind) if kind is PluginKind.ORDER or name not in BUILT_IN])
        while True:
            token, now = self._news.token(), self._clock()
            waits = {name: wait for name, one in self._of(kind).items() if (wait := one.again_in(now)) is not None}
            due = [name for name, wait in waits.items() if wait <= 0]
            await self._look(kind, due)  # any answer marks the news
            await self._news.wait(token, AGAIN_SECONDS[0] if due else min(waits.values(), default=None))

    async def _look(self, kind: PluginKind, names: Sequence[str]) -> None:
        if kind is PluginKind.FRAMEWORK:
            await self._ask(names, FrameworkQuestion())
            return
        for name in names:
            await self._ask([name], LoadQuestion())

    def _of(self, kind: PluginKind) -> dict[str, PluginStanding]:
        return {key.name: one for key, one in self._standings.items() if key.kind is kind}

    async def _ask(self, names: Sequence[str], question: PluginQuestion[A]) -> list[JudgedAnswer[A]]:
        if not names or self._link is None:
            return []
        async with self._turns[question.kind]:
            told, trouble = await self._link.ask(names, question)
            if trouble:
                log.warning("%s plug-ins: %s", question.kind, trouble)
            # A refusal needs no work.
            answers = [judged(one, question) if one.refused else await in_thread(judged, one, question) for one in told]
        for one, answer in zip(told, answers, strict=True):
            key = PluginKey(question.kind, one.name)
            self.seconds[key] += one.seconds
            self._take(key, answer, job=isinstance(question, EpochQuestion))
        return answers

    def _take(self, key: PluginKey, said: JudgedAnswer[A], *, job: bool) -> None:
        before = self._standings[key]
        self._standings[key] = now = after(before, said, self._clock(), job=job)
        self.counts[key, REFUSED if said.refused else ANSWERED] += 1
        if now.message:
            log.warning("the %s plug-in %s is left out: %s", key.kind, key.name, now.message)
        if (now.wrong, now.document, now.asked) != (before.wrong, before.document, before.asked):
            self._changes.mark()
        self._news.mark()


def node_plugins(run_dir: Path, frameworks: Sequence[str], orders: Sequence[str], changes: Changes) -> NodePlugins:
    """Return the plug-ins of these names. The socket of their asker is in ``run_dir``."""
    return NodePlugins(PluginLink(run_dir / SOCKET), frameworks, orders, changes)

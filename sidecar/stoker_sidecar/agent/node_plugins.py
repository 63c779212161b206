"""The framework plug-ins of a node: asked when there is a question, left out when they are wrong."""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from stoker_api.nodecache import NodePlugin
from stoker_plugins.asking import FileHead
from stoker_sidecar.agent.core.plugin_standing import JudgedAnswer, PluginStanding, after, judged
from stoker_sidecar.agent.plugin_link import PluginLink
from stoker_sidecar.threads import in_thread
from stoker_sidecar.volumes.synchronization import Changes
from stoker_sidecar.wire.plugins_protocol import SOCKET, ToldAnswer
from stoker_tuning.frameworks.answers import PluginAnswer
from stoker_tuning.frameworks.builtin_plugins import BUILT_IN

if TYPE_CHECKING:
    from stoker_tuning.documents.profile_models import TuningDocument

log = logging.getLogger(__name__)
ANSWERED, REFUSED = "answered", "refused"


class NodePlugins:
    """The plug-ins that may be asked. ``run`` it; nobody waits for a plug-in but who asks.

    ``changes`` are marked when another one is left out, or has other rules. ``clock``: the monotonic one, in seconds.
    """

    def __init__(
        self, names: Sequence[str], link: PluginLink, changes: Changes, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._link = link
        self._changes = changes
        self._clock = clock
        self._standings = {name: PluginStanding(name) for name in names}
        self._one_at_a_time = asyncio.Lock()
        self._news = Changes()
        self.counts: Counter[tuple[str, str]] = Counter()  # by name, and by what came of asking it

    def rows(self) -> tuple[NodePlugin, ...]:
        """Return a row for each plug-in that was asked."""
        return tuple(one.row() for one in self._standings.values() if one.asked)

    def documents(self) -> "tuple[TuningDocument, ...]":
        """Return the rules and templates of the plug-ins that have some and are not left out."""
        return tuple(one.document for one in self._standings.values() if one.document is not None)

    async def ask(self, files: Sequence[FileHead]) -> list[PluginAnswer]:
        """Return what plug-ins say of files, without those that are left out."""
        names = [name for name, one in self._standings.items() if not one.message]
        return [one.answer for one in await self._ask(names, files) if one.answer is not None]

    async def run(self) -> None:
        """Ask plug-ins that others wrote for their rules, and those that are left out once more, until cancelled."""
        others = [name for name in self._standings if name not in BUILT_IN]  # the rules of those are documents
        if others:
            await self._ask(others, ())
        while True:
            token = self._news.token()
            now = self._clock()
            waits = {name: wait for name, one in self._standings.items() if (wait := one.again_in(now)) is not None}
            due = [name for name, wait in waits.items() if wait <= 0]
            if due:
                await self._ask(due, ())
            else:
                await self._news.wait(token, min(waits.values(), default=None))

    async def _ask(self, names: Sequence[str], files: Sequence[FileHead]) -> list[JudgedAnswer]:
        if not names:
            return []
        async with self._one_at_a_time:
            asked = await self._link.ask(names, files)
            told = list(asked.told)
            missing = [name for name in names if name not in {one.name for one in told}]
            if asked.trouble:
                log.warning("framework plug-ins: %s", asked.trouble)
            if missing and asked.begun:  # who was being asked has ended the asker; those after it are innocent
                told.append(ToldAnswer(missing[0], "", refused=f"{asked.trouble or 'no answer'} while it was asked"))
            answers = await in_thread(_judge_all, told, len(files))
        for answer in answers:
            self._take(answer)
        return answers

    def _take(self, said: JudgedAnswer) -> None:
        before = self._standings[said.name]
        self._standings[said.name] = now = after(before, said, self._clock())
        self.counts[said.name, REFUSED if now.message else ANSWERED] += 1
        if now.message:
            log.warning("the framework plug-in %s is left out: %s", said.name, now.message)
        if (now.message, now.document, now.asked) != (before.message, before.document, before.asked):
            self._changes.mark()
        self._news.mark()


def _judge_all(told: Sequence[ToldAnswer], files: int) -> list[JudgedAnswer]:
    return [judged(one, files) for one in told]


def node_plugins(names: Sequence[str], run_dir: Path, changes: Changes) -> NodePlugins | None:
    """Return the plug-ins of these names, whose asker has its socket in ``run_dir``; None where there are none."""
    return NodePlugins(names, PluginLink(run_dir / SOCKET), changes) if names else None

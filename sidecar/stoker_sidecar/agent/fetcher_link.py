"""Keeps the fetcher told: connects, says the whole plan again after every restart, and then only what changed."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from stoker_kube.backoff import Backoff
from stoker_sidecar.agent.core.commands import Held, commands, wanted
from stoker_sidecar.agent.fetcher_client import FetcherClient
from stoker_sidecar.agent.plan import NodePlan
from stoker_sidecar.errors import FetcherUnavailable, ProtocolError
from stoker_sidecar.wire.fetcher_protocol import Configure, Failed, Remove

log = logging.getLogger(__name__)
# Seconds after which a refused command (a dataset still in use) is tried again though nothing changed.
TRY_AGAIN_SECONDS = 5.0


class FetcherLink:
    """``held`` gives the versions that pods have mounted, by uid."""

    def __init__(
        self,
        socket: Path,
        plan: NodePlan,
        held: Callable[[], Held],
        sleep: Callable[[float], Awaitable[Any]] = asyncio.sleep,
    ) -> None:
        self._socket = socket
        self._plan = plan
        self._held = held
        self._sleep = sleep
        # The fetcher restarts within a second or so; ten seconds of silence would be noticed by people.
        self._backoff = Backoff(first=0.2, cap=5.0)

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            try:
                async with FetcherClient.connect(self._socket) as client:
                    await self._converse(client)
            except* (FetcherUnavailable, ProtocolError) as group:
                log.warning("%s", _first(group))
            self._plan.set_fetcher_connected(False)
            await self._sleep(self._backoff.next())

    async def _converse(self, client: FetcherClient) -> None:
        """Until the connection ends. No TaskGroup: in Python 3.11 one that fails while it is cancelled forgets the cancellation."""
        talk = _Conversation(client, self._plan, self._held)
        tasks = [asyncio.create_task(part) for part in (client.follow(self._plan.take_progress), talk.run())]
        self._plan.set_fetcher_connected(True)
        self._backoff.reset()
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        for task in done:
            task.result()


class _Conversation:
    """What was said on one connection. Commands for different datasets never wait on each other: removing one may take minutes."""

    def __init__(self, client: FetcherClient, plan: NodePlan, held: Callable[[], Held]) -> None:
        self._client = client
        self._plan = plan
        self._held = held
        self._sent: dict[str, Configure] = {}
        self._busy: set[str] = set()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            while True:
                token = self._plan.changes.token()
                for command in self._due():
                    uid = _uid(command)
                    if uid not in self._busy:
                        self._busy.add(uid)
                        tasks.create_task(self._say(uid, command))
                await self._plan.changes.wait(token, TRY_AGAIN_SECONDS)

    def _due(self) -> list[Configure | Remove]:
        if self._plan.generation is None:
            return []
        held = self._held()
        target = wanted(self._plan.datasets, self._plan.credentials, held)
        return commands(self._plan.planned.keys(), target, self._sent, self._plan.on_disk, held)

    async def _say(self, uid: str, command: Configure | Remove) -> None:
        try:
            reply = await self._client.request(command)
        finally:
            self._busy.discard(uid)
        if isinstance(reply, Failed):
            # Tried again after TRY_AGAIN_SECONDS; the fetcher's own progress says what is wrong with a dataset.
            log.warning("the fetcher refused to %s dataset %s: %s", type(command).__name__.lower(), uid, reply.message)
            return
        if isinstance(command, Configure):
            self._sent[uid] = command
        else:
            self._sent.pop(uid, None)
            self._plan.forget(uid)
        self._plan.changes.mark()


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first single error of a group; the others follow from it."""
    error = group.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error


def _uid(command: Configure | Remove) -> str:
    return command.uid if isinstance(command, Remove) else str(command.dataset["uid"])

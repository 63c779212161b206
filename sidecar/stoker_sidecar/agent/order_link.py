"""The agent's way to order plug-ins: a connection for each question, at which the keeper starts an asker."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from stoker_orders.predictors.interface import OrderQuestion
from stoker_plugins.orders import MOST_LOADED, most_bytes
from stoker_sidecar.wire.order_questions import encode_order_question
from stoker_sidecar.wire.plugins_protocol import MOST_LINE, ToldAnswer, decode_told
from stoker_tuning.frameworks.answers import PluginRefusedError

# Seconds of a question: a plug-in has 30, and its asker may wait for the one of a sidecar's earlier agent.
_SECONDS = 120.0


class AskOrder(Protocol):
    """Who asks order plug-ins."""

    async def ask(self, name: str, question: OrderQuestion) -> bytes:
        """Return what the plug-in tells, unread. Raises PluginRefusedError with a sentence: it tells nothing."""
        ...

    async def look(self, name: str) -> ToldAnswer:
        """Return whether the plug-in is there and can be loaded; what it says of that is unread."""
        ...


class OrderLink:
    """Asks order plug-ins through the socket of their asker: an AskOrder."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket

    async def ask(self, name: str, question: OrderQuestion) -> bytes:
        """Return what the plug-in tells, unread. Raises PluginRefusedError with a sentence: it tells nothing."""
        told = await self._told(name, question, most_bytes(question))
        if told.refused:
            raise PluginRefusedError(told.refused)
        return told.said

    async def look(self, name: str) -> ToldAnswer:
        """Return whether the plug-in is there and can be loaded; what it says of that is unread."""
        try:
            return await self._told(name, None, MOST_LOADED)
        except PluginRefusedError as error:
            return ToldAnswer(name, "", refused=str(error))

    async def _told(self, name: str, question: OrderQuestion | None, most: int) -> ToldAnswer:
        try:
            async with asyncio.timeout(_SECONDS):
                reader, writer = await asyncio.open_unix_connection(str(self._socket), limit=MOST_LINE)
                try:
                    writer.write(encode_order_question(name, question))
                    await writer.drain()
                    return await _read(reader, name, most)
                finally:
                    writer.close()
        except TimeoutError:
            raise PluginRefusedError("its asker does not end") from None
        except (OSError, ValueError) as error:  # ValueError: also a line beyond the limit
            raise PluginRefusedError(f"its asker's answer cannot be had: {error}") from error


async def _read(reader: asyncio.StreamReader, name: str, most: int) -> ToldAnswer:
    """Read the parts of an answer. Raises PluginRefusedError, OSError and ValueError."""
    said = bytearray()
    while line := await reader.readline():
        told = decode_told(line, [name])
        if told.refused or not told.said:
            return replace(told, said=bytes(said))
        said += told.said
        if len(said) > most:
            raise PluginRefusedError("its asker tells more than it may")
    raise PluginRefusedError("its asker ended while it was asked")

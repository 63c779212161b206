"""The agent's way to order plug-ins: a connection for each question, at which the keeper starts an asker."""

import asyncio
from pathlib import Path
from typing import Protocol

from stoker_orders.predictors.interface import OrderQuestion
from stoker_plugins.orders import most_bytes
from stoker_sidecar.wire.order_questions import encode_order_question
from stoker_sidecar.wire.plugins_protocol import MOST_LINE, decode_told
from stoker_tuning.frameworks.answers import PluginRefusedError

# Seconds of a question: a plug-in has 30, and its asker may wait for the one of a sidecar's earlier agent.
_SECONDS = 120.0


class AskOrder(Protocol):
    """Who asks order plug-ins."""

    async def ask(self, name: str, question: OrderQuestion) -> bytes:
        """Return what the plug-in tells, unread. Raises PluginRefusedError with a sentence: it tells nothing."""
        ...


class OrderLink:
    """Asks order plug-ins through the socket of their asker: an AskOrder."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket

    async def ask(self, name: str, question: OrderQuestion) -> bytes:
        """Return what the plug-in tells, unread. Raises PluginRefusedError with a sentence: it tells nothing."""
        try:
            async with asyncio.timeout(_SECONDS):
                reader, writer = await asyncio.open_unix_connection(str(self._socket), limit=MOST_LINE)
                try:
                    writer.write(encode_order_question(name, question))
                    await writer.drain()
                    return await _read(reader, name, most_bytes(question))
                finally:
                    writer.close()
        except TimeoutError:
            raise PluginRefusedError("its asker does not end") from None
        except (OSError, ValueError) as error:  # ValueError: also a line beyond the limit
            raise PluginRefusedError(f"its asker's answer cannot be had: {error}") from error


async def _read(reader: asyncio.StreamReader, name: str, most: int) -> bytes:
    """Read the parts of an answer. Raises PluginRefusedError, OSError and ValueError."""
    said = bytearray()
    while line := await reader.readline():
        told = decode_told(line, [name])
        if told.refused:
            raise PluginRefusedError(told.refused)
        if not told.said:
            return bytes(said)
        said += told.said
        if len(said) > most:
            raise PluginRefusedError("its asker tells more than it may")
    raise PluginRefusedError("its asker ended while it was asked")

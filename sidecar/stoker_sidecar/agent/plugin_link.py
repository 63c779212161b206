"""The agent's way to framework plug-ins: a connection for each question, at which the keeper starts an asker."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from stoker_plugins.asking import FileHead, question_of
from stoker_sidecar.wire.plugins_protocol import MOST_LINE, ToldAnswer, decode_told, encode_question
from stoker_tuning.frameworks.container_context import container_context

# Seconds of a question: its asker may wait for one before it, and on a node that has just started; each plug-in has 5.
_SECONDS, _FOR_A_PLUGIN = 60.0, 6.0
_NO_CONTAINER = container_context({})  # nodes may read no pods


class AskedPlugins(NamedTuple):
    """What was told; ``trouble``: why not all of it, empty where it is all. ``begun``: an asker has answered at all."""

    told: tuple[ToldAnswer, ...]
    trouble: str = ""
    begun: bool = True


class PluginLink:
    """Asks plug-ins through the socket of their asker."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket

    async def ask(self, names: Sequence[str], files: Sequence[FileHead]) -> AskedPlugins:
        """Ask these plug-ins about files. Never raises but CancelledError."""
        told: list[ToldAnswer] = []
        begun = False
        try:
            async with asyncio.timeout(_SECONDS + _FOR_A_PLUGIN * len(names)):
                reader, writer = await asyncio.open_unix_connection(str(self._socket), limit=MOST_LINE)
                try:
                    writer.write(encode_question(names, _question(files)))
                    await writer.drain()
                    begun = True
                    while (line := await reader.readline()) and len(told) < len(names):
                        told.append(decode_told(line, names))
                finally:
                    writer.close()
        except TimeoutError:
            return AskedPlugins(tuple(told), "the asker does not end", begun)
        except (OSError, ValueError) as error:  # ValueError: also a line beyond the limit
            return AskedPlugins(tuple(told), f"the asker's answer cannot be had: {error}", begun)
        return AskedPlugins(tuple(told), "" if len(told) == len(names) else "the asker ended early", begun)


def _question(files: Sequence[FileHead]) -> dict[str, Any]:
    return dict(question_of(files, _NO_CONTAINER))

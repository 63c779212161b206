"""The JSON lines that this process logs."""

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from stoker_api.log_lines import JsonFormatter


class JsonLines(logging.Handler):
    """Collects the decoded lines."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(JsonFormatter({"node": "node-1"}))
        self.lines: list[dict[str, Any]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(json.loads(self.format(record)))


@contextmanager
def json_log(logger: str, level: int = logging.INFO) -> Iterator[list[dict[str, Any]]]:
    """Collect the lines of a logger and those below it."""
    handler, source = JsonLines(), logging.getLogger(logger)
    before = source.level
    source.addHandler(handler)
    source.setLevel(level)
    try:
        yield handler.lines
    finally:
        source.removeHandler(handler)
        source.setLevel(before)

"""Bounded log lines, because messages repeat texts of tenants, nodes and stores. Standard library only."""

import json
import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from types import MappingProxyType

MOST_MESSAGE = 2048  # characters of a message; bytes in JSON
MOST_LINE = 16_384  # of a line with its traceback
MOST_FIELD = 256  # bytes of another JSON field: longer than a name in Kubernetes
FORMAT = "STOKER_LOG_FORMAT"  # the variable with the format, text or json; processes inherit it from the keeper

# What the current task works for, as JSON fields.
_subject: ContextVar[Mapping[str, str]] = ContextVar("stoker_log_subject", default=MappingProxyType({}))


@contextmanager
def log_subject(*, uid: str = "", namespace: str = "", pod: str = "", dataset: str = "") -> Iterator[None]:
    """Add these fields to JSON lines of this task, and of tasks that it creates.

    ``uid`` is the pod's UID, or the Dataset's if there is no pod: it follows both through all processes.
    """
    token = _subject.set({"uid": uid, "namespace": namespace, "pod": pod, "dataset": dataset})
    try:
        yield
    finally:
        _subject.reset(token)


class BoundedFormatter(logging.Formatter):
    """Formats a message as one line of bounded length, so that a text can neither fill the log nor forge a line.

    A traceback follows on separate lines.
    """

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 -- the library's name
        """Return the line of a record."""
        record.message = _printable(_cut(record.message, MOST_MESSAGE))
        return super().formatMessage(record)

    def format(self, record: logging.LogRecord) -> str:
        """Return the line and its traceback."""
        return _cut(super().format(record), MOST_LINE)


class JsonFormatter(logging.Formatter):
    """Formats a record as one JSON object of bounded size, with the fields of ``log_subject`` and ``fields``."""

    def __init__(self, fields: Mapping[str, str]) -> None:
        super().__init__()
        self._fields = fields

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = {"time": time.replace("+00:00", "Z"), "level": record.levelname, "logger": record.name}
        line["message"] = _in_bytes(record.getMessage(), MOST_MESSAGE)
        about = {**self._fields, **_subject.get()}
        line |= {name: _in_bytes(value, MOST_FIELD) for name, value in about.items() if value}
        if record.exc_info:
            line["exception"] = _in_bytes(self.formatException(record.exc_info), MOST_LINE // 2, keep="\n")
        return json.dumps(line, ensure_ascii=False)


def log_to_stderr(level: str, uid: str = "", version: str = "", environment: Mapping[str, str] = os.environ) -> None:
    """Log to standard error from ``level`` on. ``uid`` and ``version``: the process's Dataset, if it has only one."""
    handler = logging.StreamHandler()
    handler.setFormatter(_formatter(uid, version, environment))
    logging.basicConfig(level=level.upper(), handlers=[handler])


def _formatter(uid: str, version: str, environment: Mapping[str, str]) -> logging.Formatter:
    if environment.get(FORMAT) == "json":
        return JsonFormatter({"node": environment.get("NODE_NAME", ""), "uid": uid, "version": version})
    named = f" {uid}/{version}" if uid else ""
    return BoundedFormatter(f"%(asctime)s %(levelname)s %(name)s{named}: %(message)s")


def _printable(text: str, keep: str = "") -> str:
    """Escape line ends and control characters, except those in ``keep``."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or one in keep else one.encode("unicode_escape").decode() for one in text)


def _in_bytes(text: str, most: int, keep: str = "") -> str:
    """Return printable text of at most ``most`` bytes. JSON at most doubles them."""
    return _printable(_cut(text, most), keep).encode()[:most].decode(errors="ignore")


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"

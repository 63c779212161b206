"""Decides which log records make a test fail.

They are warnings and errors of Stoker, or of asyncio, that the test did not announce.
"""

import logging
import re
from collections.abc import Iterable

# asyncio logs exceptions of forgotten tasks, and unclosed resources.
OURS = ("stoker", "asyncio")


def is_ours(record: logging.LogRecord) -> bool:
    """Return True for a record of Stoker's loggers (``stoker.keeper``, ``stoker_operator.loop``) or asyncio's."""
    return re.split(r"[._]", record.name)[0] in OURS


def unexpected(records: Iterable[logging.LogRecord], expected: Iterable[str]) -> list[str]:
    """Return a line for each warning or error of these loggers that matches no expected regular expression."""
    patterns = [re.compile(pattern, re.DOTALL) for pattern in expected]
    bad = [record for record in records if record.levelno >= logging.WARNING and is_ours(record)]
    told = ((record, record.getMessage()) for record in bad)
    return [
        f"{record.levelname} {record.name}: {message}"
        for record, message in told
        if not any(pattern.search(message) for pattern in patterns)
    ]

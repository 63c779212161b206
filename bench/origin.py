"""Where the figures of a run come from: the commit of this checkout, and the time."""

import subprocess
from datetime import UTC, datetime
from pathlib import Path

from bench.report import Origin

_ROOT = Path(__file__).resolve().parents[1]


def origin(command: str, scale: str, now: datetime | None = None) -> Origin:
    """Describe a run that begins now; without git, or outside of a checkout, the commit is empty."""
    date = (now or datetime.now(UTC)).strftime("%Y-%m-%dT%H:%M:%SZ")
    return Origin(command, _git("rev-parse", "HEAD").strip(), bool(_git("status", "--porcelain")), date, scale)


def _git(*words: str) -> str:
    try:
        return subprocess.run(["git", *words], cwd=_ROOT, check=True, capture_output=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return ""

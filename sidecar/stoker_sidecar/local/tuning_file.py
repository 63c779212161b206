"""The rules of `stoker mount`: those of its file, read anew when it changes, or the built-in ones, or none."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

from stoker_sidecar.local.tuning_report import TuningReport
from stoker_sidecar.tuning.built_in import BuiltInRules
from stoker_sidecar.tuning.core.grouping import not_turned
from stoker_sidecar.tuning.source import TuningChoice
from stoker_sidecar.tuning.tuner import TuningInForce
from stoker_sidecar.volumes.synchronization import Changes
from stoker_tuning.documents.assembly import TuningRules, read_profile
from stoker_tuning.documents.errors import DocumentError
from stoker_tuning.documents.tree import MOST_BYTES

log = logging.getLogger("stoker.mount")
_LOOK_SECONDS = 1.0

# By which a file is known to be another one: when it was written, its size, its inode.
_Stamp = tuple[int, int, int]


def read_tuning_file(path: Path) -> TuningRules:
    """Read a tuning document.

    Raises ValueError with a sentence that names the file, the line, and what may be meant.
    """
    try:
        if path.exists() and not path.is_file():  # a pipe could be read but once, and would be waited for
            raise ValueError(f"--tuning {path}: is not a file")
        with path.open("rb") as file:
            return read_profile(file.read(MOST_BYTES + 1))
    except OSError as error:
        raise ValueError(f"--tuning {path}: {error.strerror or error}") from error
    except DocumentError as error:
        problems = "; ".join(map(str, error.problems))
        raise ValueError(f"--tuning {path}: {problems} (stoker tuning validate {path} shows all)") from error


class TuningFile:
    """A TuningSource: the rules of a file, the last ones that were good; None: the built-in rules; ``off``: no rules.

    ``changes`` are marked when it has other rules.
    """

    def __init__(
        self,
        path: Path | None,
        changes: Changes,
        *,
        off: bool = False,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._path = path
        self._changes = changes
        self._sleep = sleep
        self._choice = TuningChoice(off=True) if off else BuiltInRules().choice("")
        self._stamp: _Stamp | None = None
        self.trouble = ""
        self.look()

    def choice(self, dataset_uid: str) -> TuningChoice:
        """Return the rules that are in force."""
        return self._choice

    async def run(self) -> None:
        """Read the file whenever it has changed, until cancelled."""
        while True:
            await self._sleep(_LOOK_SECONDS)
            self.look()

    def look(self) -> None:
        """Read the file if it is another one than at the last look; a bad one changes nothing, and is told."""
        if self._path is None or self._choice.off:
            return
        stamp = _stamp(self._path)
        if stamp == self._stamp and self._stamp is not None:
            return
        self._stamp = stamp
        try:
            found = read_tuning_file(self._path)
        except ValueError as error:
            if self.trouble != str(error):
                log.warning("the rules before stay in force: %s", error)
            self.trouble = str(error)
        else:
            self.trouble = ""
            self._choice = TuningChoice(
                found.rules,
                found.name,
                self._choice.generation + 1,
                learns=found.metrics_collection,
                adapts=found.auto_tuning,
            )
            log.info("the rules of %s are in force, for the %d. time", self._path, self._choice.generation)
        self._changes.mark()

    def report(self, in_force: TuningInForce | None, tuned: str = "") -> TuningReport:
        """Return what is in force; ``in_force``: what it comes to for the mounted version, once that is known.

        ``tuned``: what came of the last number that was tried.
        """
        choice = self._choice
        figures = in_force.rules if in_force is not None else ()
        left = in_force.left if in_force is not None else ""
        return TuningReport(
            off=choice.off,
            profile=choice.profile,
            generation=choice.generation,
            matched={each.rule: each.matched for each in figures},
            acted={each.rule: each.acted for each in figures},
            groups=in_force.groups if in_force is not None else 0,
            numbers=dict(in_force.choice.numbers) if in_force is not None else {},
            tuned=tuned,
            not_turned=not_turned(choice),
            trouble=self.trouble or left,
        )


def _stamp(path: Path) -> _Stamp | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino

"""The rules of `stoker mount`: those of its file, reloaded when it changes, or the built-in ones, or none."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path

from stoker_plugins.asking import ask
from stoker_plugins.discovery import installed_plugins
from stoker_plugins.framework_question import FrameworkQuestion
from stoker_sidecar.local.reports.report_parts import TuningReport
from stoker_sidecar.tuning.source import BuiltInRules, TuningChoice
from stoker_sidecar.tuning.tuner import TuningInForce
from stoker_sidecar.volumes.synchronization import Changes
from stoker_tuning.documents.assembly import TuningRules, builtin_rules, plugin_document, read_profile
from stoker_tuning.documents.errors import DocumentError
from stoker_tuning.documents.profile_models import TuningDocument
from stoker_tuning.documents.tree import MOST_BYTES
from stoker_tuning.frameworks.answers import PluginRefusedError
from stoker_tuning.frameworks.builtin_plugins import BUILT_IN

log = logging.getLogger("stoker.mount")
_LOOK_SECONDS = 1.0

# Identifies a version of the file: modification time, size, inode.
_Stamp = tuple[int, int, int]


def documents_of(plugins: Sequence[str]) -> list[TuningDocument]:
    """Ask plug-ins for their rules and templates, in separate processes. Invalid ones are left out."""
    found = []
    for plugin in installed_plugins():
        if plugin.name in plugins and plugin.name not in BUILT_IN:
            with suppress(PluginRefusedError):  # the mount's own asker tells why
                found.append(plugin_document(ask(plugin, FrameworkQuestion())))
    return found


def read_tuning_file(path: Path, plugins: Sequence[TuningDocument] = ()) -> TuningRules:
    """Read a tuning document. ``plugins`` are documents of framework plug-ins, whose templates it may use.

    Raises ValueError with a sentence that names the file, the line, and a suggestion.
    """
    try:
        if path.exists() and not path.is_file():  # a pipe can be read only once, and would block
            raise ValueError(f"--tuning {path}: is not a file")
        with path.open("rb") as file:
            return read_profile(file.read(MOST_BYTES + 1), plugins)
    except OSError as error:
        raise ValueError(f"--tuning {path}: {error.strerror or error}") from error
    except DocumentError as error:
        problems = "; ".join(map(str, error.problems))
        raise ValueError(f"--tuning {path}: {problems} (stoker tuning validate {path} shows all)") from error


class TuningFile:
    """A TuningSource: the last valid rules of a file; None: the built-in rules; ``off``: no rules.

    ``changes`` are marked when the rules change. ``plugins`` returns the documents of framework plug-ins, whose rules
    apply in addition to the built-in ones.
    """

    def __init__(
        self,
        path: Path | None,
        changes: Changes,
        *,
        off: bool = False,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        plugins: Callable[[], tuple[TuningDocument, ...]] = lambda: (),
    ) -> None:
        self._path = path
        self._changes = changes
        self._sleep = sleep
        self._plugins = plugins
        self._read_with: tuple[TuningDocument, ...] = ()
        self._choice = TuningChoice(off=True) if off else BuiltInRules().choice("")
        self._stamp: _Stamp | None = None
        self.trouble = ""
        self.look()

    def choice(self, dataset_uid: str) -> TuningChoice:
        """Return the rules in force."""
        return self._choice

    async def run(self) -> None:
        """Reload the file whenever it has changed, until cancelled."""
        while True:
            await self._sleep(_LOOK_SECONDS)
            self.look()

    def look(self) -> None:
        """Reload the file if it has changed. An invalid file changes nothing, and is reported."""
        plugins = self._plugins()
        others, self._read_with = plugins != self._read_with, plugins
        if self._choice.off:
            return
        if self._path is None:
            if others:
                self._choice = TuningChoice(tuple(builtin_rules(plugins=plugins)))
                self._changes.mark()
            return
        stamp = _stamp(self._path)
        if stamp == self._stamp and self._stamp is not None and not others:
            return
        self._stamp = stamp
        try:
            found = read_tuning_file(self._path, plugins)
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
            )
            log.info("the rules of %s are in force, for the %d. time", self._path, self._choice.generation)
        self._changes.mark()

    def report(self, in_force: TuningInForce | None, tuned: str = "") -> TuningReport:
        """Return the report. ``in_force`` has the effect on the mounted version, once it is known.

        ``tuned``: the outcome of the last tested rule.
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
            tuned=tuned,
            trouble=self.trouble or left,
        )


def _stamp(path: Path) -> _Stamp | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino

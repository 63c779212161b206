"""Sends the knobs of files to the fetcher when the rules of a Dataset or the behavior of its readers change."""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from stoker_sidecar.errors import SidecarError
from stoker_sidecar.threads import to_its_end
from stoker_sidecar.tuning.core.grouping import CompiledChoice, FileGrouping, concerns_whole_versions
from stoker_sidecar.tuning.core.pace import MOST_TURNS, Pace
from stoker_sidecar.tuning.source import TuningChoice, TuningSource
from stoker_sidecar.tuning.version_groups import VersionGroups, group_files
from stoker_sidecar.version.layout import VersionPaths
from stoker_sidecar.volumes.core.publish import VersionKey
from stoker_sidecar.volumes.synchronization import Changes
from stoker_sidecar.volumes.versions_on_disk import CacheFolders
from stoker_sidecar.wire.fetcher_hints import FileKnobs, Tune
from stoker_tuning.rules.facts import Surroundings, SystemFacts

log = logging.getLogger(__name__)
# Cached groupings of one version. Phases alternate, and most lead to the same groups.
_MOST_SORTED = 6
# Cached compilations of one Dataset: with a rule on trial, without it, and the previous one.
_MOST_COMPILED = 3
# Seconds until the retry after an error, unless something changes earlier.
_TRY_AGAIN = 60.0


class TuningSubject(NamedTuple):
    """A version of a Dataset with its readers.

    ``surroundings``: of the readers. ``system``: facts of the machine, also without readers. ``whole``: the version is
    complete on the disk, so that only page cache rules matter.
    """

    version: VersionKey
    surroundings: tuple[Surroundings, ...] = ()
    system: SystemFacts = SystemFacts()
    whole: bool = False


class RuleCounts(NamedTuple):
    """The number of files that match a rule, and that have one of its values."""

    rule: str
    matched: int
    acted: int


@dataclass(frozen=True)
class TuningInForce:
    """The rules that a version applies, with their effects. Rules without files are omitted.

    ``groups``: number of groups with other knobs than the default. ``left``: why files have the default, a sentence.
    ``around``: behavior of the readers. ``order``: the last order to the fetcher, or None. ``since``: its time in
    seconds, monotonic. ``read_ahead``: bytes of the kernel's read-ahead on the version's FUSE mount, or None for the
    default. ``whole``: see TuningSubject.
    """

    choice: TuningChoice
    rules: tuple[RuleCounts, ...] = ()
    groups: int = 0
    left: str = ""
    around: tuple[Surroundings, ...] = ()
    order: Tune | None = None
    since: float = 0.0
    read_ahead: int | None = None
    whole: bool = False


class Tuner:
    """Applies rules to the versions of a node. Call ``run``. Not thread-safe.

    ``subjects``: the current versions. ``tell`` receives each order, which replaces the previous one of that version,
    and returns True if it changes anything. ``changes``: marked when ``subjects`` or ``source`` may have changed.
    ``clock``: seconds, monotonic.
    """

    def __init__(
        self,
        source: TuningSource,
        folders: CacheFolders,
        subjects: Callable[[], Iterable[TuningSubject]],
        tell: Callable[[Tune], bool],
        changes: Changes,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._source = source
        self._folders = folders
        self._subjects = subjects
        self._tell = tell
        self._changes = changes
        self._clock = clock
        self._ended = threading.Event()
        self._asked: dict[VersionKey, tuple[TuningChoice, tuple[Surroundings, ...], bool]] = {}
        self._rules: dict[str, list[CompiledChoice]] = {}
        self._sorted: dict[VersionKey, dict[Hashable, VersionGroups]] = {}
        self._paces: dict[str, Pace] = {}
        self._turns: dict[str, Pace] = {}  # for windows of experiments
        self._troubles: dict[VersionKey, str] = {}
        self._for_whole: dict[str, tuple[TuningChoice, bool]] = {}
        self.in_force: dict[VersionKey, TuningInForce] = {}
        self.news = Changes()  # marked when ``in_force`` changes

    async def run(self) -> None:
        """Apply every change, until cancelled."""
        while True:
            token = self._changes.token()
            await self._changes.wait(token, await self.look())

    async def look(self) -> float | None:
        """Send due orders. Return the seconds until the next one is due, or None."""
        every = tuple(self._subjects())
        uids = {subject.version[0] for subject in every}
        self._for_whole = {uid: one for uid, one in self._for_whole.items() if uid in uids}
        subjects = [subject for subject in every if self._matters(subject)]
        self._retain({subject.version for subject in subjects})
        waits = [await self._look_safely_at(subject) for subject in subjects]
        return min((wait for wait in waits if wait > 0), default=None)

    def _matters(self, subject: TuningSubject) -> bool:
        """Return True if rules may have an effect on the version. The result is cached."""
        if not subject.whole:
            return True
        uid = subject.version[0]
        try:
            choice, known = self._source.choice(uid), self._for_whole.get(uid)
        except Exception:  # noqa: BLE001 -- an error of one Dataset, which _look_safely_at logs
            return True
        if known is None or known[0] != choice:
            known = self._for_whole[uid] = choice, concerns_whole_versions(choice)
        return known[1]

    def _retain(self, versions: set[VersionKey]) -> None:
        for gone in (self._asked.keys() | self._sorted.keys() | self._troubles.keys()) - versions:
            self._asked.pop(gone, None)
            self._troubles.pop(gone, None)
            self._sorted.pop(gone, None)
            if self.in_force.pop(gone, None) is not None:
                self.news.mark()
        uids = {uid for uid, _ in versions}
        self._rules = {uid: one for uid, one in self._rules.items() if uid in uids}
        self._paces = {uid: one for uid, one in self._paces.items() if uid in uids}
        self._turns = {uid: one for uid, one in self._turns.items() if uid in uids}

    async def _look_safely_at(self, subject: TuningSubject) -> float:
        """Process a version. An error affects only its Dataset."""
        version = subject.version
        try:
            wait = await self._look_at(subject)
        except Exception as error:  # noqa: BLE001 -- rules are anyone's, and those of one Dataset must end nothing else
            if self._troubles.get(version) != repr(error):
                self._troubles[version] = repr(error)
                log.warning(
                    "the rules of dataset %s cannot be followed, and what was in force for it stays: %r",
                    version[0],
                    error,
                )
            return _TRY_AGAIN
        self._troubles.pop(version, None)
        return wait

    async def _look_at(self, subject: TuningSubject) -> float:
        version, around = subject.version, subject.surroundings or (Surroundings(system=subject.system),)
        choice = self._source.choice(version[0])
        if self._asked.get(version) == (choice, around, subject.whole):
            return 0.0
        pace = self._pace(version, choice, around)
        if (wait := pace.wait(self._clock())) > 0:
            return wait
        rules = self._rules_of(version[0], choice)
        groups = await self._groups(version, rules, around)
        if groups is None or self._source.choice(version[0]) != choice:
            return 0.0 if groups is None else 0.1
        self._asked[version] = choice, around, subject.whole
        order = Tune(*version, groups.knobs, groups.groups)
        self._note(choice, rules, groups, subject._replace(surroundings=around), order)
        if self._tell(order):
            pace.changed(self._clock())
        return 0.0

    def _pace(self, version: VersionKey, choice: TuningChoice, around: tuple[Surroundings, ...]) -> Pace:
        """Return the rate limit of a change: that of experiments, if only the experiment changed."""
        before = self._asked.get(version)
        if before is not None and (before[0].chosen, before[1]) == (choice.chosen, around):
            return self._turns.setdefault(version[0], Pace(MOST_TURNS))
        return self._paces.setdefault(version[0], Pace())

    def _note(
        self, choice: TuningChoice, rules: CompiledChoice, groups: VersionGroups, subject: TuningSubject, order: Tune
    ) -> None:
        version = subject.version
        before = self.in_force.get(version)
        if choice.paused and before is not None:  # counts are those of windows with the rule
            rows = before.rules
        else:
            counted = zip(rules.compiled, groups.matched, groups.acted, strict=False)
            rows = tuple(RuleCounts(rule.spec.id, matched, acted) for rule, matched, acted in counted if matched)
        used = max(0, len(groups.knobs) - 1)
        self.in_force[version] = TuningInForce(
            choice,
            rows,
            used,
            groups.left,
            subject.surroundings,
            order,
            self._clock(),
            groups.read_ahead,
            subject.whole,
        )
        self.news.mark()
        if groups.left:
            log.warning("files of version %s are treated as without rules: %s", version[1][:12], groups.left)

    def _rules_of(self, uid: str, choice: TuningChoice) -> CompiledChoice:
        known = self._rules.setdefault(uid, [])
        found = next((rules for rules in known if rules.choice == choice), None)
        if found is None:
            found = CompiledChoice(choice)
            known[:] = [found, *known[: _MOST_COMPILED - 1]]
        return found

    async def _groups(
        self, version: VersionKey, rules: CompiledChoice, around: tuple[Surroundings, ...]
    ) -> VersionGroups | None:
        """Return the groups of a version's files. None if they are unknown."""
        if not rules.can_matter(around):
            return VersionGroups()
        key = (
            rules,
            rules.for_nobody_but(around),
        )  # the rules themselves, since an id may be reused after they are gone
        known = self._sorted.setdefault(version, {})
        if key not in known:
            grouping = FileGrouping(rules, around)
            if version not in self.in_force and (knobs := grouping.unsorted()) != FileKnobs():
                self._tell(Tune(*version, (knobs,)))  # sorting a million files takes a minute
            found = await self._sort(version, rules, grouping)
            if found is None:
                return None
            known[key] = found
            while len(known) > _MOST_SORTED:
                del known[next(iter(known))]
        return known[key]

    async def _sort(self, version: VersionKey, rules: CompiledChoice, grouping: FileGrouping) -> VersionGroups | None:
        paths = self._folders.paths(*version)
        if paths is None:
            return None

        def ended() -> bool:
            return self._ended.is_set() or self._source.choice(version[0]) != rules.choice

        work = partial(self._folders.go_through, partial(_group_files, grouping=grouping, ended=ended), paths)
        try:
            return await to_its_end(asyncio.ensure_future(asyncio.to_thread(work)), hurry=self._ended.set)
        except (OSError, SidecarError) as error:
            log.warning("rules do nothing for version %s of dataset %s: %s", version[1][:12], version[0], error)
            return None


def _group_files(paths: VersionPaths, grouping: FileGrouping, ended: Callable[[], bool]) -> VersionGroups:
    return group_files(paths, grouping, ended)

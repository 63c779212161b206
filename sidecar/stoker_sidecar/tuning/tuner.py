"""Keeps the fetcher told how to treat files: whenever the rules of a Dataset change, or what its readers do."""

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
from stoker_sidecar.tuning.core.adaptive_numbers import AdaptiveFiles, with_numbers
from stoker_sidecar.tuning.core.grouping import CompiledChoice, FileGrouping, concerns_whole_versions
from stoker_sidecar.tuning.core.pace import MOST_TURNS, Pace
from stoker_sidecar.tuning.source import TuningChoice, TuningSource
from stoker_sidecar.tuning.version_groups import VersionGroups, group_files
from stoker_sidecar.version.layout import VersionPaths
from stoker_sidecar.volumes.core.publish import VersionKey
from stoker_sidecar.volumes.synchronization import Changes
from stoker_sidecar.volumes.versions_on_disk import CacheFolders
from stoker_sidecar.wire.fetcher_protocol import Tune
from stoker_tuning.rules.facts import Surroundings, SystemFacts

log = logging.getLogger(__name__)
# Sorted files of one version that are kept: phases come and go, and most of them lead to the same.
_MOST_SORTED = 6
# Compiled rules of one Dataset that are kept: with a rule that is on trial, without it, and those before.
_MOST_COMPILED = 3
# After so many seconds a version is looked at again at which something went wrong, when nothing changes before.
_TRY_AGAIN = 60.0


class TuningSubject(NamedTuple):
    """A version of a Dataset, and what those who read it do; empty: nobody reads it yet.

    ``whole``: there is nothing of it left to bring, so that only rules about the page cache matter.
    ``system``: the machine, which rules look at also while nobody reads.
    """

    version: VersionKey
    surroundings: tuple[Surroundings, ...] = ()
    system: SystemFacts = SystemFacts()
    whole: bool = False


class RuleCounts(NamedTuple):
    """Of a rule: to how many files it applies, and for how many of them one of its values is in force."""

    rule: str
    matched: int
    acted: int


@dataclass(frozen=True)
class TuningInForce:
    """What is in force for a version: whose rules, and what they come to, those that apply to no file left out.

    ``groups``: that are treated otherwise than without rules. ``around``: what its readers do. ``order``: what the
    fetcher is told; None: nothing. ``since``: when that was, in seconds, monotonic. ``read_ahead``: bytes of the
    kernel's read-ahead on the version's FUSE mount; None: as without rules. ``whole``: as of the subject.
    ``adaptive``: the files of which numbers may be found; None: there are none.
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
    adaptive: AdaptiveFiles | None = None


class Tuner:
    """Decides and tells. ``run`` it; not for threads.

    ``subjects``: the versions of now. ``tell`` is given each order, which stays in force until the next one of that
    version, and returns whether it changes anything.
    ``changes``: marked when ``subjects`` or ``source`` may say something else. ``clock``: seconds, monotonic.
    ``most_turns``: of trials a minute, for one Dataset.
    """

    def __init__(
        self,
        source: TuningSource,
        folders: CacheFolders,
        subjects: Callable[[], Iterable[TuningSubject]],
        tell: Callable[[Tune], bool],
        changes: Changes,
        clock: Callable[[], float] = time.monotonic,
        most_turns: int = MOST_TURNS,
    ) -> None:
        self._most_turns = most_turns
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
        self._turns: dict[str, Pace] = {}  # of the windows of trials
        self._troubles: dict[VersionKey, str] = {}
        self._for_whole: dict[str, tuple[TuningChoice, bool]] = {}
        self.in_force: dict[VersionKey, TuningInForce] = {}
        self.news = Changes()  # marked when something else is in force

    async def run(self) -> None:
        """Look at every change, until cancelled."""
        while True:
            token = self._changes.token()
            await self._changes.wait(token, await self.look())

    async def look(self) -> float | None:
        """Tell what is to be told now; return the seconds until there is something left; None: nothing is."""
        every = tuple(self._subjects())
        uids = {subject.version[0] for subject in every}
        self._for_whole = {uid: one for uid, one in self._for_whole.items() if uid in uids}
        subjects = [subject for subject in every if self._matters(subject)]
        self._retain({subject.version for subject in subjects})
        waits = [await self._look_safely_at(subject) for subject in subjects]
        return min((wait for wait in waits if wait > 0), default=None)

    def _matters(self, subject: TuningSubject) -> bool:
        """Tell whether rules may turn anything for it; it is asked at every change, so an answer is remembered."""
        if not subject.whole:
            return True
        uid = subject.version[0]
        try:
            choice, known = self._source.choice(uid), self._for_whole.get(uid)
        except Exception:  # noqa: BLE001 -- trouble of that Dataset alone, which is told where it is looked at
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
        """Look at a version; whatever goes wrong at one stays there: the others, and the agent, go on."""
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
        rules = self._rules_of(version[0], choice.ruled)
        groups = await self._groups(version, rules, around)
        if groups is None or self._source.choice(version[0]) != choice:
            return 0.0 if groups is None else 0.1
        self._asked[version] = choice, around, subject.whole
        order = Tune(*version, with_numbers(groups.knobs, groups.free, choice.numbers), groups.groups)
        self._note(choice, rules, groups, subject._replace(surroundings=around), order)
        if self._tell(order):
            pace.changed(self._clock())
        return 0.0

    def _pace(self, version: VersionKey, choice: TuningChoice, around: tuple[Surroundings, ...]) -> Pace:
        """Return what counts a change: that of a trial, where nothing but what is tried has changed."""
        before = self._asked.get(version)
        if before is not None and (before[0].chosen, before[1]) == (choice.chosen, around):
            return self._turns.setdefault(version[0], Pace(self._most_turns))
        return self._paces.setdefault(version[0], Pace())

    def _note(
        self, choice: TuningChoice, rules: CompiledChoice, groups: VersionGroups, subject: TuningSubject, order: Tune
    ) -> None:
        version = subject.version
        before = self.in_force.get(version)
        if choice.paused and before is not None:  # what is counted is what a rule does where it is in force
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
            groups.adaptive,
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
        """Return the groups of a version's files; None: they cannot be known yet."""
        if not rules.can_matter(around):
            return VersionGroups()
        key = (
            rules,
            rules.for_nobody_but(around),
        )  # the rules themselves: a number could be given to others, once they are gone
        known = self._sorted.setdefault(version, {})
        if key not in known:
            found = await self._sort(version, rules, FileGrouping(rules, around))
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
            return self._ended.is_set() or self._source.choice(version[0]).ruled != rules.choice

        work = partial(self._folders.go_through, partial(_group_files, grouping=grouping, ended=ended), paths)
        try:
            return await to_its_end(asyncio.ensure_future(asyncio.to_thread(work)), hurry=self._ended.set)
        except (OSError, SidecarError) as error:
            log.warning("rules do nothing for version %s of dataset %s: %s", version[1][:12], version[0], error)
            return None


def _group_files(paths: VersionPaths, grouping: FileGrouping, ended: Callable[[], bool]) -> VersionGroups:
    return group_files(paths, grouping, ended)

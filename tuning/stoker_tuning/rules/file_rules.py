"""Finds the rules for a file, cheaply for millions of files: most are decided for whole groups of files.

A group has the properties that conditions can test without a path: extension, type, split, and the interval between the
rules' sizes. Rules for a folder are looked up by the folder, and are decided for the groups in it. Each group of a
Dataset has many files, so a file costs little more than the lookup of its group. Rules about names are tested per file,
and only those that the group leaves open.
"""

from bisect import bisect_left
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from stoker_tuning.rules.compiled import CompiledRule, RuleForFiles, narrowed
from stoker_tuning.rules.facts import FileFacts, Surroundings

_MOST_GROUPS = 20_000  # about 10 MB; beyond that all are dropped and computed again


@dataclass(frozen=True, slots=True)
class _FileGroup:
    """The decisions for one group: rules that apply to all files, and rules that depend on the path."""

    apply: tuple[int, ...]
    open: tuple[RuleForFiles, ...]


_NO_RULES = _FileGroup((), ())


class FileRules:
    """The rules for the files of one workload on one node."""

    def __init__(self, rules: tuple[CompiledRule, ...], surroundings: Surroundings) -> None:
        self._rules = narrowed(rules, surroundings)
        self._anywhere: list[RuleForFiles] = []
        self._by_folder: dict[str, list[RuleForFiles]] = {}
        for rule in self._rules:
            for folder in _folders(rule):
                self._by_folder.setdefault(folder, []).append(rule)
            if not _folders(rule):
                self._anywhere.append(rule)
        conditions = [each for rule in self._rules for each in rule.conditions]
        self._steps = sorted({step for each in conditions for step in each.size_steps})
        self._groups: dict[Hashable, _FileGroup] = {}
        self._below: dict[str, tuple[RuleForFiles, ...]] = {}

    @property
    def groups(self) -> int:
        """Number of known groups."""
        return len(self._groups)

    def applying(self, file: FileFacts) -> tuple[int, ...]:
        """Return the places of the rules that apply, in order of precedence."""
        path = file.path
        slash, dot = path.rfind("/") + 1, path.rfind(".")
        folder, extension = path[:slash], path[dot:] if dot >= slash else ""
        key = (extension, self._step(file.size), file.type, file.split)
        group = self._groups.get(key) or self._met(key, self._anywhere, file, None)
        below = self._below.get(folder)
        if below is None:
            below = self._met_folder(folder)
        if not below:
            return _asked(group, _NO_RULES, file) if group.open else group.apply
        inner = (folder, *key)
        return _asked(group, self._groups.get(inner) or self._met(inner, below, file, folder), file)

    def applying_without_file(self) -> tuple[int, ...]:
        """Return the places of the rules that apply without a file, to a whole Dataset."""
        return tuple(rule.place for rule in self._rules if _applies(rule, None))

    def _step(self, size: int | None) -> int:
        """Return the position of a size among the rules' sizes: 2n + 1 at the n-th, else 2n below it; -1: unknown."""
        if size is None:
            return -1
        number = bisect_left(self._steps, size)
        return 2 * number + (number < len(self._steps) and self._steps[number] == size)

    def _met_folder(self, folder: str) -> tuple[RuleForFiles, ...]:
        """Find the rules for a folder or one of its parents."""
        if len(self._below) >= _MOST_GROUPS:
            self._below.clear()
        names = folder.split("/")[:-1]
        above = ["/".join(names[:depth]) + "/" for depth in range(1, len(names) + 1)] if self._by_folder else []
        found = {rule.place: rule for each in above for rule in self._by_folder.get(each, ())}
        below = self._below[folder] = tuple(found[place] for place in sorted(found))
        return below

    def _met(self, key: Hashable, rules: Sequence[RuleForFiles], file: FileFacts, folder: str | None) -> _FileGroup:
        if len(self._groups) >= _MOST_GROUPS:
            self._groups.clear()
        left = [each for rule in rules if (each := _left_open(rule, file, folder)) is not None]
        group = _FileGroup(
            tuple(rule.place for rule in left if rule.needed <= 0), tuple(rule for rule in left if rule.needed > 0)
        )
        self._groups[key] = group
        return group


def _folders(rule: RuleForFiles) -> tuple[str, ...]:
    """Return the folders that contain all files of a rule; empty if it can apply anywhere."""
    weight = sum(each.spec.weight for each in rule.conditions)
    needs = (each.folders for each in rule.conditions if weight - each.spec.weight < rule.needed)
    return next((folders for folders in needs if folders), ())


def _asked(group: _FileGroup, inner: _FileGroup, file: FileFacts) -> tuple[int, ...]:
    """Test the open rules, and return all that apply, in order."""
    still_open = group.open + inner.open if group.open else inner.open
    named = [rule.place for rule in still_open if _applies(rule, file)] if still_open else []
    if not named and not inner.apply:
        return group.apply
    return tuple(sorted((*group.apply, *inner.apply, *named)))


def _applies(rule: RuleForFiles, file: FileFacts | None) -> bool:
    return sum(each.spec.weight for each in rule.conditions if each.holds_for(file)) >= rule.needed


def _left_open(rule: RuleForFiles, file: FileFacts, folder: str | None) -> RuleForFiles | None:
    """Return the open part of a rule for the files of one group; None if it applies to none of them."""
    needed, left, weight = rule.needed, [], 0.0
    for each in rule.conditions:
        holds = each.decide(file, folder)
        if holds is None:
            left.append(each)
            weight += each.spec.weight
        elif holds:
            needed -= each.spec.weight
    return RuleForFiles(rule.place, needed, tuple(left)) if weight >= needed else None

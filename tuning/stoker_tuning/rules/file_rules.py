"""Which rules apply to a file, cheaply for millions: most is decided for whole groups of files at once.

A group is what conditions can know of a file without its name: folder, extension, type, split, and between which of the
rules' sizes it is. Of a Dataset's files there are many in each group, so a file costs little more than finding its
group; rules that look at names are asked file by file, and only those that the group leaves open.
"""

from bisect import bisect_left
from collections.abc import Hashable
from dataclasses import dataclass

from stoker_tuning.rules.compiled import CompiledRule, RuleForFiles, narrowed
from stoker_tuning.rules.facts import FileFacts, Surroundings

_MOST_GROUPS = 20_000  # some 10 MB; then they are forgotten and found anew


@dataclass(frozen=True, slots=True)
class _FileGroup:
    """What is known of the files of one group: rules that apply to all, and rules that depend on the name."""

    apply: tuple[int, ...]
    open: tuple[RuleForFiles, ...]


class FileRules:
    """The rules for the files of one workload on one node."""

    def __init__(self, rules: tuple[CompiledRule, ...], surroundings: Surroundings) -> None:
        self._rules = narrowed(rules, surroundings)
        conditions = [each for rule in self._rules for each in rule.conditions]
        self._steps = sorted({step for each in conditions for step in each.size_steps})
        self._groups: dict[Hashable, _FileGroup] = {}

    @property
    def groups(self) -> int:
        """How many groups of files are known."""
        return len(self._groups)

    def applying(self, file: FileFacts) -> tuple[int, ...]:
        """Return the places of the rules that apply, in the order in which they count."""
        path = file.path
        slash, dot = path.rfind("/") + 1, path.rfind(".")
        extension = path[dot:] if dot >= slash else ""
        key = (path[:slash], extension, self._step(file.size), file.type, file.split)
        group = self._groups.get(key)
        if group is None:
            group = self._met(key, file)
        if not group.open:
            return group.apply
        named = [rule.place for rule in group.open if _applies(rule, file)]
        return tuple(sorted((*group.apply, *named))) if named else group.apply

    def applying_without_file(self) -> tuple[int, ...]:
        """Return the places of the rules that apply whatever the file: those that are about a whole Dataset."""
        return tuple(rule.place for rule in self._rules if _applies(rule, None))

    def _step(self, size: int | None) -> int:
        """Return where a size lies between the rules' sizes: 2n + 1 at the n-th, else 2n below it; -1: not known."""
        if size is None:
            return -1
        number = bisect_left(self._steps, size)
        return 2 * number + (number < len(self._steps) and self._steps[number] == size)

    def _met(self, key: Hashable, file: FileFacts) -> _FileGroup:
        if len(self._groups) >= _MOST_GROUPS:
            self._groups.clear()
        apply, still_open = [], []
        for rule in self._rules:
            left = _left_open(rule, file)
            if left is None:
                continue
            if left.needed <= 0:
                apply.append(rule.place)
            else:
                still_open.append(left)
        group = self._groups[key] = _FileGroup(tuple(apply), tuple(still_open))
        return group


def _applies(rule: RuleForFiles, file: FileFacts | None) -> bool:
    return sum(each.spec.weight for each in rule.conditions if each.holds_for(file)) >= rule.needed


def _left_open(rule: RuleForFiles, file: FileFacts) -> RuleForFiles | None:
    """Return what is left of a rule for the files of one group; None when it applies to none of them."""
    needed, left, weight = rule.needed, [], 0.0
    for each in rule.conditions:
        holds = each.decide(file)
        if holds is None:
            left.append(each)
            weight += each.spec.weight
        elif holds:
            needed -= each.spec.weight
    return RuleForFiles(rule.place, needed, tuple(left)) if weight >= needed else None

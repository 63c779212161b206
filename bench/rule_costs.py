"""What tuning rules cost by the number of files: CPU seconds to say of each file which rules apply to it.

The rules are of three mixes. ``groups``: extensions, sizes and folders, which are decided for whole groups of files.
``names``: as these, and one in ten is a regular expression for the path. ``worst``: all are, so that nothing is decided
for a group. Rules are evaluated for a file when it is first read, so what counts there is the time of one file.
"""

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from stoker_tuning.rules.compiled import CompiledRule, compile_rules
from stoker_tuning.rules.facts import FileFacts, Surroundings
from stoker_tuning.rules.file_rules import FileRules
from stoker_tuning.rules.spec import ActionSpec, ConditionSpec, RuleOrigin, RuleSpec
from stoker_tuning.vocabulary import ActionTarget, ActionType, ConditionOperator, ConditionScope, RuleLayer

FILES = 1_000_000
RULES = 1_000
MIXES = ("groups", "names", "worst")
_FOLDERS = 1_000
_AT_MOST = {"names": 20_000, "worst": 2_000}  # files: of all, what is not decided for groups would take an hour
_EXTENSIONS = (".JPEG", ".jpg", ".png", ".tar", ".json", ".txt", ".npy", ".bin")
_FILE, _PATTERN = ConditionScope.FILE_CONTEXT, ConditionScope.FILE_PATTERN


@dataclass(frozen=True)
class RuleCost:
    """CPU seconds for so many files and rules, evaluated by groups; and microseconds of a file, also one by one."""

    mix: str
    files: int
    rules: int
    seconds: float
    by_groups_us: float
    one_by_one_us: float


def measure_rules(files: int, rules: int) -> list[RuleCost]:
    """Measure each mix once, those that take long with fewer files."""
    return [_measured(mix, min(files, _AT_MOST.get(mix, files)), rules) for mix in MIXES]


def show_rules(costs: Sequence[RuleCost], result: Path) -> str:
    """Write the figures as JSON, and return them as a table."""
    result.parent.mkdir(parents=True, exist_ok=True)
    result.write_text(json.dumps([asdict(cost) for cost in costs], indent=1))
    rows = [("mix", "rules", "files", "all", "a file", "one by one")]
    for cost in costs:
        times = (f"{cost.seconds:.2f} s", f"{cost.by_groups_us:.1f} us", f"{cost.one_by_one_us:.0f} us")
        rows.append((cost.mix, f"{cost.rules:,}", f"{cost.files:,}", *times))
    return "\n".join("  ".join(f"{cell:>12}" for cell in row) for row in rows)


def _measured(mix: str, files: int, rules: int) -> RuleCost:
    compiled = compile_rules([_rule(mix, number) for number in range(rules)])
    facts = list(_files(files))
    seconds = _seconds(compiled, facts)
    sample = facts[:: max(1, len(facts) // 50)]
    began = time.process_time()
    for file in sample:
        for rule in compiled:
            rule.score(Surroundings(), file)
    alone = time.process_time() - began
    return RuleCost(mix, files, rules, seconds, 1e6 * seconds / files, 1e6 * alone / len(sample))


def _seconds(compiled: tuple[CompiledRule, ...], facts: Sequence[FileFacts]) -> float:
    began = time.process_time()
    by_groups = FileRules(compiled, Surroundings())
    for file in facts:
        by_groups.applying(file)
    return time.process_time() - began


def _files(count: int) -> Iterator[FileFacts]:
    """Yield files as ImageNet has them: a thousand folders, one extension each in the most, sizes of all kinds."""
    each = max(1, count // _FOLDERS)
    for number in range(count):
        folder, extension = number // each, _EXTENSIONS[number % len(_EXTENSIONS) if number % 50 == 0 else 0]
        yield FileFacts(f"train/n{folder:08d}/n{folder:08d}_{number}{extension}", 1_000 + number * 7919 % 1_000_000)


def _rule(mix: str, number: int) -> RuleSpec:
    origin = RuleOrigin("bench", RuleLayer.CUSTOM)
    action = ActionSpec(ActionType.CACHE, ActionTarget.FILE, {"should_cache": True})
    return RuleSpec(f"r{number}", origin, (_condition(mix, number),), (action,), number % 100)


def _condition(mix: str, number: int) -> ConditionSpec:
    if mix == "worst" or (mix == "names" and number % 10 == 0):
        names = (f"_{number}[0-9]*\\.JPEG$", f"/n0*{number}_[0-9]+5")
        return ConditionSpec(_FILE, "path", ConditionOperator.MATCHES, names[number // 10 % 2])
    kind = number % 4
    if kind == 0:
        return ConditionSpec(_FILE, "extension", ConditionOperator.EQUALS, f"{_EXTENSIONS[number % 8].lower()}")
    if kind == 1:
        return ConditionSpec(_PATTERN, "glob", ConditionOperator.EQUALS, f"train/n{number:08d}/**")
    if kind == 2:
        return ConditionSpec(_PATTERN, "glob", ConditionOperator.EQUALS, f"train/n{number:08d}/*_{number}*.JPEG")
    return ConditionSpec(_FILE, "size", ConditionOperator.GREATER_THAN, (number % 8) * 125_000)

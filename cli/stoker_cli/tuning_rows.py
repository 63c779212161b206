"""Verdicts, trials and explanations of tuning rules -> lines, rows of a table and JSON; pure."""

from collections.abc import Iterator
from dataclasses import asdict

from stoker_api.meta import format_bytes
from stoker_tuning.documents.assembly import TuningRules
from stoker_tuning.documents.errors import DocumentError
from stoker_tuning.recommend.knobs import KNOBS, Knob, KnobKind
from stoker_tuning.recommend.recommendation import Explained
from stoker_tuning.rules.compiled import CompiledRule
from stoker_tuning.rules.facts import FileFacts, Surroundings
from stoker_tuning.rules.file_rules import FileRules
from stoker_tuning.rules.merging import GivenValue
from stoker_tuning.rules.spec import KnobValue, RuleSpec

RULE_COLUMNS = ("RULE", "FROM", "LAYER", "PRIORITY", "FILES", "SIZE", "OF ALL")
VALUE_COLUMNS = ("KNOB", "VALUE", "GIVEN BY", "BECAUSE")


def printable(text: str) -> str:
    """Return others' text without signs that would move a terminal's cursor, or that are no text."""
    return "".join(mark if mark.isprintable() else "?" for mark in text)


def verdict(file: str, found: TuningRules | DocumentError) -> dict[str, object]:
    """Return what was found of a document, as JSON."""
    if isinstance(found, TuningRules):
        return {"file": file, "valid": True, "rules": _own(found), "problems": []}
    problems = [asdict(each) for each in found.problems]
    return {"file": file, "valid": False, "rules": 0, "problems": problems, "leftOut": found.left_out}


def verdict_lines(file: str, found: TuningRules | DocumentError) -> list[str]:
    """Return what was found of a document: a line, or one for each problem as compilers write them."""
    name = printable(file)
    if isinstance(found, TuningRules):
        own = _own(found)
        noun, builtin = "rule" if own == 1 else "rules", len(found.rules) - own
        return [f"{name}: good: {found.name} has {own} {noun} in force beside {builtin} built-in ones"]
    lines = [f"{name}:{p.line}:{p.column}: {f'{p.path}: ' if p.path else ''}{p.message}" for p in found.problems]
    return [*lines, *([f"{name}: and {found.left_out} problems more"] if found.left_out else [])]


def _own(rules: TuningRules) -> int:
    return sum(rule.origin.document == rules.name for rule in rules.rules)


class Trial:
    """Counts to how many files, and bytes, each rule applies."""

    def __init__(self, rules: tuple[CompiledRule, ...], file_rules: FileRules) -> None:
        self._rules, self._file_rules = rules, file_rules
        self._files = [0] * len(rules)
        self._bytes = [0] * len(rules)
        self._total, self._total_bytes, self._untouched = 0, 0, 0

    def add(self, file: FileFacts) -> list[str]:
        """Count a file; return the ids of the rules that apply to it."""
        applying = self._file_rules.applying(file)
        for place in applying:
            self._files[place] += 1
            self._bytes[place] += file.size or 0
        self._total += 1
        self._total_bytes += file.size or 0
        self._untouched += not applying
        return [self._rules[place].spec.id for place in applying]

    def rows(self) -> Iterator[tuple[tuple[str, ...], RuleSpec, int]]:
        """Yield a row of the table for each rule, the rule, and its count of files."""
        for rule, count, size in zip(self._rules, self._files, self._bytes, strict=True):
            spec = rule.spec
            share = f"{100 * count / self._total:.0f} %" if self._total else "-"
            priority = "-" if spec.priority < 0 else str(spec.priority)
            cells = (spec.id, str(spec.origin), spec.origin.layer, priority, f"{count:,}", format_bytes(size), share)
            yield cells, spec, count

    def sentence(self) -> str:
        """Say how much was tried."""
        size = format_bytes(self._total_bytes)
        return f"{self._total:,} files of {size} were tried; no rule applies to {self._untouched:,} of them."

    def wire(self) -> dict[str, object]:
        """Return the counts as JSON."""
        rows = [
            {"rule": spec.id, "document": spec.origin.document, "group": spec.origin.group, "layer": spec.origin.layer}
            | {"priority": spec.priority, "files": count}
            for _, spec, count in self.rows()
        ]
        return {"files": self._total, "bytes": self._total_bytes, "untouched": self._untouched, "rules": rows}


def value_rows(explained: Explained) -> Iterator[tuple[str, ...]]:
    """Yield a row for each knob."""
    for knob in KNOBS:
        value, origin = getattr(explained.values, knob.name), explained.origins[knob.name]
        yield knob.name, _written(knob, value), _giver(origin), _reason(origin)


def _written(knob: Knob, value: KnobValue) -> str:
    if knob.kind is KnobKind.BYTES:
        return format_bytes(float(value))
    return str(value).lower() if knob.kind is KnobKind.SWITCH else str(value)


def _giver(origin: GivenValue | str) -> str:
    if isinstance(origin, str):
        return origin
    return f"{origin.rule.id} ({origin.rule.origin}; {origin.rule.origin.layer})"


def _reason(origin: GivenValue | str) -> str:
    if isinstance(origin, str):
        return ""
    rule = origin.rule
    return " and ".join(map(str, (*rule.gates, *rule.conditions))) or "it always applies"


def explanation_lines(
    rules: tuple[CompiledRule, ...], surroundings: Surroundings, file: FileFacts, *, every: bool
) -> Iterator[str]:
    """Yield the rules that apply, in the order in which they count; with ``every`` also those that do not."""
    for rule in rules:
        score = rule.score(surroundings, file)
        if score.applies:
            yield f"{rule.spec.id} applies: {100 * score.share:.0f} % of its weights hold."
        elif every:
            pairs = zip(rule.conditions, score.holds, strict=True)
            missing = [str(each.spec) for each, held in pairs if not held]
            missing = missing if rule.open_to(surroundings) else [*map(str, rule.spec.gates)]
            yield f"{rule.spec.id} does not apply: {100 * score.share:.0f} % hold, not {'; '.join(missing)}."


def explained_wire(
    rules: tuple[CompiledRule, ...], explained: Explained, surroundings: Surroundings, file: FileFacts
) -> dict[str, object]:
    """Return an explanation as JSON."""
    values = values_wire(explained)
    scores = [(rule.spec, rule.score(surroundings, file)) for rule in rules]
    applied = [{"rule": spec.id, "share": score.share, "applies": score.applies} for spec, score in scores]
    return {"path": file.path, "values": values, "rules": applied}


def values_wire(explained: Explained) -> dict[str, object]:
    """Return the value of each knob, and what gave it, as JSON."""
    return {
        knob.name: {"value": getattr(explained.values, knob.name)} | _origin_wire(explained.origins[knob.name])
        for knob in KNOBS
    }


def _origin_wire(origin: GivenValue | str) -> dict[str, object]:
    if isinstance(origin, str):
        return {"from": origin}
    where = origin.rule.origin
    return {"from": "rule", "rule": origin.rule.id, "document": where.document, "layer": where.layer} | {
        "group": where.group,
        "because": [str(each) for each in (*origin.rule.gates, *origin.rule.conditions)],
    }

"""Formats verdicts, trials and explanations of tuning rules as lines, rows and JSON. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict

from stoker_api.meta import format_bytes
from stoker_cli.output import printable
from stoker_cli.tuning.effects import RuleEffects
from stoker_tuning.documents.assembly import TuningRules
from stoker_tuning.documents.errors import DocumentError, Problem
from stoker_tuning.recommend.knobs import AUTO, KNOBS, Knob, KnobKind
from stoker_tuning.recommend.recommendation import Explained
from stoker_tuning.rules.compiled import CompiledRule
from stoker_tuning.rules.facts import FileFacts, Surroundings
from stoker_tuning.rules.file_rules import FileRules
from stoker_tuning.rules.merging import GivenValue
from stoker_tuning.rules.spec import KnobValue, RuleSpec
from stoker_tuning.vocabulary import Compression, ModelFileKind

RULE_COLUMNS = ("RULE", "FROM", "LAYER", "PRIORITY", "FILES", "SIZE", "OF ALL")
VALUE_COLUMNS = ("KNOB", "VALUE", "GIVEN BY", "BECAUSE")
EFFECT_COLUMN = "MEASURED EFFECT"


def verdict(file: str, result: TuningRules | DocumentError, warnings: Sequence[Problem] = ()) -> dict[str, object]:
    """Return the verdict on a document, as JSON."""
    if isinstance(result, TuningRules):
        warned = [asdict(each) for each in warnings]
        return {"file": file, "valid": True, "rules": _own(result), "problems": [], "warnings": warned}
    problems = [asdict(each) for each in result.problems]
    return {"file": file, "valid": False, "rules": 0, "problems": problems, "leftOut": result.left_out}


def verdict_lines(file: str, result: TuningRules | DocumentError, warnings: Sequence[Problem] = ()) -> list[str]:
    """Return the verdict on a document as lines in the format of compilers."""
    name = printable(file)
    if isinstance(result, TuningRules):
        own = _own(result)
        noun, builtin = "rule" if own == 1 else "rules", len(result.rules) - own
        lines = [_placed(name, each, "warning: ") for each in warnings]
        return [*lines, f"{name}: valid: {result.name} has {own} {noun}, in addition to {builtin} built-in ones"]
    lines = [_placed(name, each) for each in result.problems]
    return [*lines, *([f"{name}: and {result.left_out} more problems"] if result.left_out else [])]


def _placed(file: str, problem: Problem, kind: str = "") -> str:
    where = f"{problem.path}: " if problem.path else ""
    return f"{file}:{problem.line}:{problem.column}: {kind}{where}{problem.message}"


def _own(rules: TuningRules) -> int:
    return sum(rule.origin.document == rules.name for rule in rules.rules)


class Trial:
    """Counts the files and bytes that each rule matches."""

    def __init__(self, rules: tuple[CompiledRule, ...], file_rules: FileRules) -> None:
        self._rules, self._file_rules = rules, file_rules
        self._files = [0] * len(rules)
        self._bytes = [0] * len(rules)
        self._total, self._total_bytes, self._untouched = 0, 0, 0

    def add(self, file: FileFacts) -> list[str]:
        """Count a file, and return the ids of the matching rules."""
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
        """Return a summary sentence."""
        size = format_bytes(self._total_bytes)
        files = "1 file" if self._total == 1 else f"{self._total:,} files"
        if not self._untouched:
            return f"{files} ({size}) checked; each matches at least one rule."
        return f"{files} ({size}) checked; {self._untouched:,} match no rule."

    def wire(self) -> dict[str, object]:
        """Return the counts as JSON."""
        rows = [
            {"rule": spec.id, "document": spec.origin.document, "group": spec.origin.group, "layer": spec.origin.layer}
            | {"priority": spec.priority, "files": count}
            for _, spec, count in self.rows()
        ]
        return {"files": self._total, "bytes": self._total_bytes, "untouched": self._untouched, "rules": rows}


def value_rows(
    explained: Explained, *, model: bool = False, effects: RuleEffects | None = None
) -> Iterator[tuple[str, ...]]:
    """Yield a row for each value in force. ``model``: the file is a model file. ``effects``: adds their column."""
    for knob in _in_force(explained, model=model):
        value, origin = getattr(explained.values, knob.name), explained.origins[knob.name]
        row = knob.name, _written(knob, value), _giver(origin, explained), _reason(origin)
        if effects is None:
            yield row
        else:
            rule = _rule_of(origin, explained)
            yield *row, effects.words(rule) if rule else ""


def _rule_of(origin: GivenValue | str, explained: Explained) -> str:
    """Return the id of the rule that sets a value or names its set. Empty: a default does."""
    if not isinstance(origin, str):
        return origin.rule.id
    naming = explained.origins.get(origin.partition(" ")[0], "")
    return naming.rule.id if isinstance(naming, GivenValue) else ""


def _in_force(explained: Explained, *, model: bool) -> Iterator[Knob]:
    """Yield the knobs whose values have an effect on the file."""
    values, pages = explained.values, isinstance(explained.origins["page_cache_prefetch"], GivenValue)
    idle = {"compression_level", "min_ratio"} if values.compression == Compression.OFF else set()
    idle |= {"page_cache_prefetch"} if values.page_cache_prefetch and not (pages or model) else set()
    yield from (knob for knob in KNOBS if knob.name not in idle)


def _written(knob: Knob, value: KnobValue) -> str:
    if knob.kind is KnobKind.BYTES and value != AUTO:
        return format_bytes(float(value))
    return str(value).lower() if knob.kind is KnobKind.SWITCH else str(value)


def _giver(origin: GivenValue | str, explained: Explained) -> str:
    """Return the rule, or the named set and what names it."""
    if not isinstance(origin, str):
        return f"{origin.rule.id} ({origin.rule.origin}; {origin.rule.origin.layer})"
    knob, _, name = origin.partition(" ")
    naming = explained.origins.get(knob, "default")
    if naming == "default" or getattr(explained.values, knob) != name:
        return origin
    return f"{origin}, by {_giver(naming, explained)}"


def _reason(origin: GivenValue | str) -> str:
    if isinstance(origin, str):
        return ""
    rule = origin.rule
    return " and ".join(map(str, (*rule.gates, *rule.conditions))) or "always"


def explanation_lines(
    rules: tuple[CompiledRule, ...], surroundings: Surroundings, file: FileFacts, *, every: bool
) -> Iterator[str]:
    """Yield a sentence for each matching rule in order of precedence, or for all rules with ``every``."""
    for rule in rules:
        score = rule.score(surroundings, file)
        if score.applies:
            yield f"{rule.spec.id} applies: {100 * score.share:.0f} % of its condition weight matches."
        elif every:
            pairs = zip(rule.conditions, score.holds, strict=True)
            missing = [str(each.spec) for each, held in pairs if not held]
            missing = missing if rule.open_to(surroundings) else [*map(str, rule.spec.gates)]
            yield f"{rule.spec.id} does not apply: {100 * score.share:.0f} % matches. Missing: {'; '.join(missing)}."


def explained_wire(
    rules: tuple[CompiledRule, ...], explained: Explained, surroundings: Surroundings, file: FileFacts
) -> dict[str, object]:
    """Return an explanation as JSON."""
    values = values_wire(explained, model=file.type not in (None, ModelFileKind.UNKNOWN))
    scores = [(rule.spec, rule.score(surroundings, file)) for rule in rules]
    applied = [{"rule": spec.id, "share": score.share, "applies": score.applies} for spec, score in scores]
    return {"path": file.path, "values": values, "rules": applied}


def values_wire(explained: Explained, *, model: bool = False, effects: RuleEffects | None = None) -> dict[str, object]:
    """Return the values in force with their origins, as JSON. ``effects``: adds those of their rules."""
    wire: dict[str, object] = {}
    for knob in _in_force(explained, model=model):
        origin = explained.origins[knob.name]
        value = {"value": getattr(explained.values, knob.name)} | _origin_wire(origin)
        rule = _rule_of(origin, explained)
        wire[knob.name] = value | ({"effect": effects.wire(rule)} if effects is not None and rule else {})
    return wire


def _origin_wire(origin: GivenValue | str) -> dict[str, object]:
    if isinstance(origin, str):
        return {"from": origin}
    where = origin.rule.origin
    return {"from": "rule", "rule": origin.rule.id, "document": where.document, "layer": where.layer} | {
        "group": where.group,
        "because": [str(each) for each in (*origin.rule.gates, *origin.rule.conditions)],
    }

"""Conditions compiled once: each becomes a test of one fact, and what is said of whole groups of files."""

from collections.abc import Callable
from dataclasses import dataclass

from stoker_tuning.rules.facts import FileFacts, Surroundings
from stoker_tuning.rules.globs import Glob, parse_glob
from stoker_tuning.rules.matching import Matcher
from stoker_tuning.rules.regex_syntax import parse_regex
from stoker_tuning.rules.spec import ConditionSpec, Scalar
from stoker_tuning.vocabulary import ConditionOperator, ConditionScope

Fact = str | float | int | None
_ORDER: dict[ConditionOperator, Callable[[float, float], bool]] = {
    ConditionOperator.GREATER_THAN: lambda fact, value: fact > value,
    ConditionOperator.GREATER_OR_EQUAL: lambda fact, value: fact >= value,
    ConditionOperator.LESS_THAN: lambda fact, value: fact < value,
    ConditionOperator.LESS_OR_EQUAL: lambda fact, value: fact <= value,
}
_NEGATED = {ConditionOperator.NOT_EQUALS, ConditionOperator.NOT_IN}
# Of a file, what its group decides; the rest needs its path.
_OF_GROUP = {"extension", "size", "type", "split"}


@dataclass(frozen=True)
class CompiledCondition:
    """A condition, ready to be asked."""

    spec: ConditionSpec
    test: Callable[[Fact], bool]
    globs: tuple[Glob, ...] = ()

    @property
    def of_file(self) -> bool:
        """Whether it looks at a file."""
        return self.spec.scope in (ConditionScope.FILE_CONTEXT, ConditionScope.FILE_PATTERN)

    def holds_around(self, surroundings: Surroundings) -> bool:
        """Tell whether it holds, of a condition that does not look at a file."""
        facts = {
            ConditionScope.ACCESS_PATTERN: surroundings.access,
            ConditionScope.WORKLOAD_CONTEXT: surroundings.workload,
            ConditionScope.SYSTEM_CONTEXT: surroundings.system,
        }[self.spec.scope]
        return self.test(getattr(facts, self.spec.property))

    def holds_for(self, file: FileFacts | None) -> bool:
        """Tell whether it holds for a file; None: there is no file, so nothing is known of one."""
        if file is None:
            return self.test(None)
        if self.globs:
            return any(glob.holds(file.path) for glob in self.globs) != (self.spec.operator in _NEGATED)
        return self.test(getattr(file, self.spec.property))

    def decide(self, file: FileFacts, folder: str | None) -> bool | None:
        """Tell whether it holds for all files (True) or none (False) of a file's group; None: it depends.

        A group has one extension (as it is written), type and split, and no condition tells its sizes apart; and one
        ``folder``, or files of all folders (None).
        """
        if self.globs:
            return self._decide_globs(folder, file.written_extension)
        return self.holds_for(file) if self.spec.property in _OF_GROUP else None

    def _decide_globs(self, folder: str | None, extension: str) -> bool | None:
        found = [glob.decide(folder, extension) for glob in self.globs]
        if True not in found and None in found:
            return None
        return (True in found) != (self.spec.operator in _NEGATED)

    @property
    def folders(self) -> tuple[str, ...]:
        """The folders, of which a file has to be below one for this to hold; none where it can hold anywhere."""
        if not self.globs or self.spec.operator in _NEGATED or not all(glob.folder for glob in self.globs):
            return ()
        return tuple(dict.fromkeys(glob.folder for glob in self.globs))

    @property
    def size_steps(self) -> tuple[float, ...]:
        """The sizes at which its answer may change: below, at and above each."""
        if self.spec.property != "size" or self.spec.operator is ConditionOperator.EXISTS:
            return ()
        values = self.spec.value if isinstance(self.spec.value, tuple) else (self.spec.value,)
        return tuple(float(value) for value in values)


def compile_condition(spec: ConditionSpec) -> CompiledCondition:
    """Make a condition ready. Raises PatternError for a glob or a regular expression that cannot be read."""
    if spec.property == "glob":
        values = spec.value if isinstance(spec.value, tuple) else (spec.value,)
        # Of no file nothing is known, so no glob holds for it.
        return CompiledCondition(spec, lambda _fact: False, tuple(parse_glob(str(value)) for value in values))
    return CompiledCondition(spec, _test(spec))


def _test(spec: ConditionSpec) -> Callable[[Fact], bool]:
    operator, value = spec.operator, spec.value
    if operator is ConditionOperator.EXISTS:
        wanted = bool(value)
        return lambda fact: (fact is not None) is wanted
    if isinstance(value, tuple):
        return _one_of(frozenset(value), negated=operator in _NEGATED)
    if operator in (ConditionOperator.EQUALS, ConditionOperator.NOT_EQUALS):
        return _one_of(frozenset((value,)), negated=operator in _NEGATED)
    if operator is ConditionOperator.CONTAINS:
        text = str(value)
        return lambda fact: fact is not None and text in str(fact)
    if operator is ConditionOperator.MATCHES:
        matcher = Matcher(parse_regex(str(value)), whole=False)
        return lambda fact: fact is not None and matcher.holds(str(fact))
    compare, bound = _ORDER[operator], float(value)
    return lambda fact: fact is not None and compare(float(fact), bound)


def _one_of(values: frozenset[Scalar], *, negated: bool) -> Callable[[Fact], bool]:
    # What is not known is neither one of them nor none of them.
    return lambda fact: fact is not None and (fact in values) != negated

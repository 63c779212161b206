"""Compiled conditions: tests of one fact each, also for groups of files, and their regular expressions."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from stoker_tuning.rules.facts import FileFacts, Surroundings
from stoker_tuning.rules.globs import MOST_PATTERN, Glob, PatternError, parse_glob
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
# Properties of a file that its group decides. The others need its path.
_OF_GROUP = {"extension", "size", "type", "split"}


@dataclass(frozen=True)
class CompiledCondition:
    """A compiled condition."""

    spec: ConditionSpec
    test: Callable[[Fact], bool]
    globs: tuple[Glob, ...] = ()

    @property
    def of_file(self) -> bool:
        """Whether it tests a file."""
        return self.spec.scope in (ConditionScope.FILE_CONTEXT, ConditionScope.FILE_PATTERN)

    def holds_around(self, surroundings: Surroundings) -> bool:
        """Return True if a condition without a file is true."""
        facts = {
            ConditionScope.ACCESS_PATTERN: surroundings.access,
            ConditionScope.WORKLOAD_CONTEXT: surroundings.workload,
            ConditionScope.SYSTEM_CONTEXT: surroundings.system,
        }[self.spec.scope]
        return self.test(getattr(facts, self.spec.property))

    def holds_for(self, file: FileFacts | None) -> bool:
        """Return True if the condition is true for a file. None: there is no file, and its facts are unknown."""
        if file is None:
            return self.test(None)
        if self.globs:
            return any(glob.holds(file.path) for glob in self.globs) != (self.spec.operator in _NEGATED)
        return self.test(getattr(file, self.spec.property))

    def decide(self, file: FileFacts, folder: str | None) -> bool | None:
        """Return True if it is true for all files of a file's group, False if for no file, else None.

        A group has one extension (case-sensitive), type, split, and interval between ``size_steps``. It has one
        ``folder``, or None for files of all folders.
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
        """The folders that contain every match. Empty if a match can be anywhere."""
        if not self.globs or self.spec.operator in _NEGATED or not all(glob.folder for glob in self.globs):
            return ()
        return tuple(dict.fromkeys(glob.folder for glob in self.globs))

    @property
    def size_steps(self) -> tuple[float, ...]:
        """The sizes at which its result may change: below, at and above each."""
        if self.spec.property != "size" or self.spec.operator is ConditionOperator.EXISTS:
            return ()
        values = self.spec.value if isinstance(self.spec.value, tuple) else (self.spec.value,)
        return tuple(float(value) for value in values)


def compile_condition(spec: ConditionSpec) -> CompiledCondition:
    """Compile a condition. Raises PatternError for an invalid glob or regular expression."""
    if spec.property == "glob":
        values = spec.value if isinstance(spec.value, tuple) else (spec.value,)
        # Without a file, no glob matches.
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
        regex = Regex(str(value))
        return lambda fact: fact is not None and regex.holds(str(fact))
    compare, bound = _ORDER[operator], float(value)
    return lambda fact: fact is not None and compare(float(fact), bound)


def _one_of(values: frozenset[Scalar], *, negated: bool) -> Callable[[Fact], bool]:
    # An unknown fact fails both the test and its negation.
    return lambda fact: fact is not None and (fact in values) != negated


# Bytes of one expression: its program, and the states that texts reach.
MOST_MEMORY = 256 * 1024
_MOST_TEXT = 4_096  # characters; no path on Linux is longer


class Regex:
    """A regular expression. Raises PatternError with a sentence.

    ``size``: instructions of its program, which bound the steps per byte of a text.
    """

    def __init__(self, text: str) -> None:
        if not text or len(text) > MOST_PATTERN:
            raise PatternError(f"it has {len(text)} characters: write 1 to {MOST_PATTERN}")
        self._compiled = _compiled(text)
        self.size = int(self._compiled.programsize)

    def holds(self, text: str) -> bool:
        """Return True if a part of the text matches. A text longer than any path does not match."""
        return len(text) <= _MOST_TEXT and self._compiled.search(text.encode(errors="replace")) is not None


def _compiled(text: str) -> Any:  # RE2 ships no types
    import re2

    options = re2.Options()
    options.max_mem, options.log_errors, options.never_capture = MOST_MEMORY, False, True
    try:
        return re2.compile(text, options)
    except UnicodeEncodeError:
        raise PatternError("it is not valid Unicode: write other characters") from None
    except re2.error as error:
        reason = error.args[0].decode(errors="replace")
        if reason.startswith("pattern too large"):
            raise PatternError(f"it needs more than {MOST_MEMORY // 1024} KiB: write smaller repetitions") from error
        raise PatternError(f"{reason}: see RE2's syntax") from error

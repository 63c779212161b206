"""Values of documents, checked one by one: bytes, words, numbers, patterns. Each refusal is a sentence."""

import re
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError

from stoker_tuning.documents.errors import quoted, suggestion
from stoker_tuning.recommend.knobs import Knob, KnobKind
from stoker_tuning.rules.globs import parse_glob
from stoker_tuning.rules.matching import Matcher
from stoker_tuning.rules.properties import FactProperty, ValueKind
from stoker_tuning.rules.regex_syntax import PatternError, parse_regex
from stoker_tuning.rules.spec import KnobValue, Scalar
from stoker_tuning.vocabulary import ConditionOperator

MOST_BYTES_VALUE = 2**60  # 1Ei
MOST_NUMBER = 1e15
MOST_TEXT = 1024
MOST_IN_LIST = 100
# Of all regular expressions of a document: what a character of one path costs at the most.
MOST_PATTERN_STATES = 20_000
TOO_MANY_PATTERNS = (
    "the document's regular expressions are too large together: write fewer, or file_pattern in their place"
)
_UNITS = {"": 1} | {unit: 1000 ** (power + 1) for power, unit in enumerate("kMGTP")}
_UNITS |= {f"{unit}i": 1024 ** (power + 1) for power, unit in enumerate("KMGTP")}
_QUANTITY = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,6})?)(k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?B?")


def refusal(message: str) -> PydanticCustomError:
    """Make the error by which pydantic is told a sentence; braces in it stand for themselves."""
    return PydanticCustomError("refused", "{sentence}", {"sentence": message})


def refusal_at(key: str, message: str) -> PydanticCustomError:
    """Make such an error for one key of the mapping that is looked at."""
    return PydanticCustomError("refused", "{sentence}", {"sentence": message, "key": key})


def parse_bytes(value: object) -> int:
    """Read bytes: a number, or text such as ``64Ki`` or ``1.5Gi``. Raises a refusal."""
    match = _QUANTITY.fullmatch(value.strip()) if isinstance(value, str) and len(value) <= 40 else None
    if match is not None:
        count = int(float(match[1]) * _UNITS[match[2] or ""])
    elif isinstance(value, int) and not isinstance(value, bool):
        count = value
    else:
        raise refusal(f"{quoted(value)} is not a number of bytes: write for example 65536, 64Ki or 1.5Gi")
    if not 0 <= count <= MOST_BYTES_VALUE:
        raise refusal(f"{quoted(value)} is not between 0 and 1Ei of bytes")
    return count


def parse_word(value: object, words: Sequence[str]) -> str:
    """Read one of some words. Raises a refusal with the one that may be meant."""
    if not isinstance(value, str) or value not in words:
        raise refusal(f"{quoted(value)} is not one of the words here: {suggestion(value, words)}")
    return value


def parse_number(value: object) -> float:
    """Read a number. Raises a refusal."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= MOST_NUMBER:
        raise refusal(f"{quoted(value)} is not a number up to {MOST_NUMBER:g}")
    return value


def parse_text(value: object) -> str:
    """Read text; numbers and truth values that YAML took for such are text too. Raises a refusal."""
    if isinstance(value, bool):
        value = str(value).lower()
    if not isinstance(value, str | int | float) or len(str(value)) > MOST_TEXT:
        raise refusal(f"{quoted(value)} is not text of up to {MOST_TEXT} characters")
    return str(value)


class PatternBudget:
    """Counts the states of a document's regular expressions while it is read, so that many cost no more than few."""

    def __init__(self) -> None:
        self._left = MOST_PATTERN_STATES

    def checked(self, pattern: str) -> str:
        """Check a regular expression. Raises a refusal."""
        if self._left < 0:
            raise refusal(TOO_MANY_PATTERNS)
        self._left -= pattern_states(pattern)
        if self._left < 0:
            raise refusal(TOO_MANY_PATTERNS)
        return pattern


def pattern_states(pattern: str) -> int:
    """Return how many states a regular expression has: what a character costs at the most. Raises a refusal."""
    try:
        return Matcher(parse_regex(pattern), whole=False).states
    except PatternError as error:
        raise refusal(f"the regular expression {quoted(pattern)} cannot be taken: {error}") from error


def _checked_glob(pattern: str) -> str:
    try:
        parse_glob(pattern)
    except PatternError as error:
        raise refusal(f"the pattern {quoted(pattern)} cannot be taken: {error}") from error
    return pattern


def _one_value(of: FactProperty, value: object) -> Scalar:
    """Read one value that a property is compared with. Raises a refusal."""
    if of.kind is ValueKind.BYTES:
        return parse_bytes(value)
    if of.kind is ValueKind.NUMBER:
        return parse_number(value)
    if of.kind is ValueKind.WORD:
        return parse_word(value, of.words)
    text = parse_text(value)
    if of.kind is ValueKind.GLOB:
        return _checked_glob(text)
    if of.name == "extension":
        return text.lower() if text.startswith(".") or not text else f".{text.lower()}"
    return text


def condition_value(
    of: FactProperty, operator: ConditionOperator, value: object, budget: PatternBudget
) -> Scalar | tuple[Scalar, ...]:
    """Read what a property is compared with by an operator. Raises a refusal."""
    if operator is ConditionOperator.EXISTS:
        if value not in (None, True, False) or (isinstance(value, int) and not isinstance(value, bool)):
            raise refusal(f"{quoted(value)} is not true or false, which is what exists is compared with")
        return value is not False
    if operator in (ConditionOperator.IN, ConditionOperator.NOT_IN):
        if not isinstance(value, list | tuple) or not 1 <= len(value) <= MOST_IN_LIST:
            raise refusal(f"{operator} needs a list of 1 to {MOST_IN_LIST} values: write [a, b]")
        return tuple(_one_value(of, each) for each in value)
    if value is None or isinstance(value, list | tuple | dict):
        raise refusal(f"{operator} needs one value; write in or not_in for a list")
    if operator is ConditionOperator.MATCHES:
        return budget.checked(parse_text(value))
    return parse_text(value) if operator is ConditionOperator.CONTAINS else _one_value(of, value)


def format_size(count: float) -> str:
    """Write bytes as documents do, such as ``64Ki``."""
    for unit in ("", "Ki", "Mi", "Gi"):
        if count < 1024 or count % 1024:
            return f"{count:g}{unit}"
        count /= 1024
    return f"{count:g}Ti"


def bounds_of(knob: Knob) -> str:
    """Say the bounds of a knob: ``0 and 1Gi``."""
    write = format_size if knob.kind is KnobKind.BYTES else "{:g}".format
    return f"{write(knob.least)} and {write(knob.most)}"


def knob_value(knob: Knob, value: object) -> KnobValue:
    """Read the value of a parameter. Raises a refusal with the parameter's bounds."""
    if knob.kind is KnobKind.SWITCH:
        if not isinstance(value, bool):
            raise refusal_at(knob.name, f"{quoted(value)} is not true or false")
        return value
    try:
        if knob.words is not None:
            return knob.words(parse_word(value, [str(word) for word in knob.words]))
        number: float = parse_bytes(value) if knob.kind is KnobKind.BYTES else parse_number(value)
    except PydanticCustomError as error:
        raise refusal_at(knob.name, error.message()) from error
    if knob.kind is KnobKind.COUNT and not isinstance(number, int):
        raise refusal_at(knob.name, f"{quoted(value)} is not a whole number")
    if not knob.least <= number <= knob.most:
        raise refusal_at(knob.name, f"{quoted(value)} is not between {bounds_of(knob)}")
    return number


def _checked_text(value: object) -> Any:
    return parse_text(value) if isinstance(value, str | int | float) else value


# A name: what rules, templates, frameworks and others are called.
ID_PATTERN = r"^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$"
Identifier = Annotated[str, Field(pattern=ID_PATTERN, max_length=63)]
Line = Annotated[str, BeforeValidator(_checked_text), Field(max_length=256)]
Description = Annotated[str, BeforeValidator(_checked_text), Field(max_length=2048)]

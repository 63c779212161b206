"""Checks single values of documents: bytes, words, numbers, patterns. Each refusal is a sentence."""

import re
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError

from stoker_tuning.documents.errors import quoted, suggestion
from stoker_tuning.recommend.knobs import AUTO, Knob, KnobKind
from stoker_tuning.rules.conditions import Regex
from stoker_tuning.rules.globs import PatternError, parse_glob
from stoker_tuning.rules.properties import FactProperty, ValueKind
from stoker_tuning.rules.spec import KnobValue, Scalar
from stoker_tuning.vocabulary import ConditionOperator

MOST_BYTES_VALUE = 2**60  # 1Ei
MOST_NUMBER = 1e15
MOST_TEXT = 1024
MOST_IN_LIST = 100
# Instructions of all regular expressions of a document: the most steps per byte of a path.
MOST_REGEX_SIZE = 50_000
TOO_MANY_PATTERNS = (
    "the document's regular expressions are too large together: write fewer, or file_pattern in their place"
)
_UNITS = {"": 1} | {unit: 1000 ** (power + 1) for power, unit in enumerate("kMGTP")}
_UNITS |= {f"{unit}i": 1024 ** (power + 1) for power, unit in enumerate("KMGTP")}
_QUANTITY = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,6})?)(k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?B?")


def refusal(message: str) -> PydanticCustomError:
    """Return an error that carries a sentence through pydantic; braces in it are literal."""
    return PydanticCustomError("refused", "{sentence}", {"sentence": message})


def refusal_at(key: str, message: str) -> PydanticCustomError:
    """Return such an error for one key of the checked mapping."""
    return PydanticCustomError("refused", "{sentence}", {"sentence": message, "key": key})


def parse_bytes(value: object) -> int:
    """Parse bytes: a number, or text such as ``64Ki`` or ``1.5Gi``. Raises a refusal."""
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


def parse_word(value: object, words: Sequence[str], kind: str = "value") -> str:
    """Parse one of the words. Raises a refusal that suggests the closest one; ``kind``: a noun for the words."""
    if not isinstance(value, str) or value not in words:
        raise refusal(f"unknown {kind} {quoted(value)}: {suggestion(value, words)}")
    return value


def parse_number(value: object) -> float:
    """Parse a number. Raises a refusal."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= MOST_NUMBER:
        raise refusal(f"{quoted(value)} is not a number up to {MOST_NUMBER:g}")
    return value


def parse_text(value: object) -> str:
    """Parse text; numbers and booleans of YAML count as text, too. Raises a refusal."""
    if isinstance(value, bool):
        value = str(value).lower()
    if not isinstance(value, str | int | float) or len(str(value)) > MOST_TEXT:
        raise refusal(f"{quoted(value)} is not text of up to {MOST_TEXT} characters")
    return str(value)


class PatternBudget:
    """Bounds the total size of a document's regular expressions while it is read."""

    def __init__(self) -> None:
        self._left = MOST_REGEX_SIZE

    def checked(self, pattern: str) -> str:
        """Check a regular expression. Raises a refusal."""
        if self._left < 0:
            raise refusal(TOO_MANY_PATTERNS)
        self._left -= regex_size(pattern)
        if self._left < 0:
            raise refusal(TOO_MANY_PATTERNS)
        return pattern


def regex_size(pattern: str) -> int:
    """Return the instructions of a regular expression. Raises a refusal."""
    try:
        return Regex(pattern).size
    except PatternError as error:
        raise refusal(f"the regular expression {quoted(pattern)} cannot be taken: {error}") from error


def _checked_glob(pattern: str) -> str:
    try:
        parse_glob(pattern)
    except PatternError as error:
        raise refusal(f"the pattern {quoted(pattern)} cannot be taken: {error}") from error
    return pattern


def _one_value(of: FactProperty, value: object) -> Scalar:
    """Parse one value for comparisons with a property. Raises a refusal."""
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
    """Parse the value of a condition, by its property and operator. Raises a refusal."""
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
    """Format bytes in the notation of documents, such as ``64Ki``."""
    for unit in ("", "Ki", "Mi", "Gi"):
        if count < 1024 or count % 1024:
            return f"{count:g}{unit}"
        count /= 1024
    return f"{count:g}Ti"


def bounds_of(knob: Knob) -> str:
    """Return the bounds of a knob as text: ``0 and 1Gi``, or ``0 and 1Gi, or auto``."""
    write = format_size if knob.kind is KnobKind.BYTES else "{:g}".format
    return f"{write(knob.least)} and {write(knob.most)}{', or auto' if knob.adaptive else ''}"


def knob_value(knob: Knob, value: object) -> KnobValue:
    """Parse the value of a parameter. Raises a refusal with the parameter's bounds."""
    if knob.kind is KnobKind.SWITCH:
        if not isinstance(value, bool):
            raise refusal_at(knob.name, f"{quoted(value)} is not true or false")
        return value
    if knob.adaptive and value == AUTO:
        return AUTO
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


# The names of rules, templates, frameworks and other items.
ID_PATTERN = r"^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$"
Identifier = Annotated[str, Field(pattern=ID_PATTERN, max_length=63)]
Line = Annotated[str, BeforeValidator(_checked_text), Field(max_length=256)]
Description = Annotated[str, BeforeValidator(_checked_text), Field(max_length=2048)]

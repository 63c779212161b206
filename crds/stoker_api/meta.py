"""Building blocks of all kinds: the base model, conditions, quantities, durations and texts of bounded length."""

import json
import re
from bisect import bisect_right
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Annotated, Any, ClassVar, Literal, Protocol, Self, TypeVar

from msgspec import Meta
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    ModelWrapValidatorHandler,
    ValidationError,
    model_validator,
)
from pydantic.alias_generators import to_camel

R = TypeVar("R", bound="Readable")
T = TypeVar("T")

_ROUNDS = 3  # passes: pydantic checks the length of a list only when its items are valid

# resource.Quantity's suffixes (k8s.io/apimachinery/pkg/api/resource).
_SUFFIXES = {"n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3"), "": Decimal(1)}
_SUFFIXES |= {suffix: Decimal(1000) ** (power + 1) for power, suffix in enumerate("kMGTPE")}
_SUFFIXES |= {f"{suffix}i": Decimal(1024) ** (power + 1) for power, suffix in enumerate("KMGTPE")}
_NUMBER = re.compile(r"([+-]?[0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]+)?|[+-]?[0-9]+\.)([A-Za-z]*)")
QUANTITY_PATTERN = r"^[0-9]+([.][0-9]+)?(k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?$"
_QUANTITY_HINT = "is not a quantity of bytes: write for example 500Mi, 200Gi or 2T"
MOST_INT64 = 2**63 - 1  # largest integer of the API server; resource.Quantity stops there too
MOST_BYTES = 2**60  # 1Ei: more than any store holds, and a sum over a thousand nodes still fits int64
_MOST_BYTES_HINT = "is more than 1Ei: write less, or leave it out for no limit"
_MOST_DURATION_TEXT = 1024  # characters; anyone can write the annotation
# Characters of a quantity. Kubernetes writes 20 at most.
_MOST_DIGITS = 64
_DIGITS_OF_INT64 = 40  # digits before or after the point, from which a number exceeds int64 with any suffix
# Extra bytes in the API server's JSON: it also escapes three HTML characters and two line ends.
_ESCAPES = {b"<": 5, b">": 5, b"&": 5, "\u2028".encode(): 3, "\u2029".encode(): 3}
_MOST_OF_CHARACTER = 6  # bytes of a character in JSON
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
DURATION_PATTERN = r"^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$"
MOST_SECONDS = 365 * 86400.0
_MOST_DURATION = "8760h"
_DURATION_HINT = "is not a duration: write for example 30s, 10m or 1h30m"
_MOST_DURATION_HINT = f"is longer than a year: write {_MOST_DURATION} or less"
DNS_LABEL_PATTERN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
DNS_SUBDOMAIN_PATTERN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"


def parse_number(text: str | int | float) -> Decimal:
    """Parse any Kubernetes quantity, such as ``100m``, ``1.5Gi`` or ``1e3``. Clamp the result to int64.

    Raises ValueError with a sentence.
    """
    match = _NUMBER.fullmatch(str(text).strip()) if len(str(text)) <= _MOST_DIGITS else None
    if match is None or match.group(2) not in _SUFFIXES:
        raise ValueError(f"{shortened(str(text), 40)!r} is not a Kubernetes quantity")
    number = Decimal(match.group(1))
    # Checked before any arithmetic: 1e999999999 has that many digits.
    if number and abs(number.adjusted()) >= _DIGITS_OF_INT64:
        number = Decimal(0) if number.adjusted() < 0 else Decimal(MOST_INT64).copy_sign(number)
    return max(min(number * _SUFFIXES[match.group(2)], Decimal(MOST_INT64)), Decimal(-MOST_INT64))


def parse_quantity(text: str) -> int:
    """Parse a quantity of bytes such as ``200Gi``, as in the CRDs. Raises ValueError with a sentence."""
    if re.fullmatch(QUANTITY_PATTERN, text.strip()) is None:
        raise ValueError(f"{text!r} {_QUANTITY_HINT}")
    count = int(parse_number(text))
    if count > MOST_BYTES:
        raise ValueError(f"{text!r} {_MOST_BYTES_HINT}")
    return count


def parse_duration(text: str) -> float:
    """Parse a Go-style duration such as ``1h30m`` into seconds. Raises ValueError with a sentence."""
    if len(text) > _MOST_DURATION_TEXT or re.fullmatch(DURATION_PATTERN, text.strip()) is None:
        raise ValueError(f"{shortened(text, 40)!r} {_DURATION_HINT}")
    parts = re.findall(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)", text)
    seconds = sum(float(number) * _SECONDS[unit] for number, unit in parts)
    if seconds > MOST_SECONDS:
        raise ValueError(f"{shortened(text, 40)!r} {_MOST_DURATION_HINT}")
    return seconds


def shortened(text: str, most: int) -> str:
    """Cut a text to ``most`` characters. Texts from other systems, such as an object store, have any length."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def stored_size(value: object) -> int:
    """Return the bytes that a value takes as JSON in the API server's database."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return stored_bytes(text.encode("utf-8", "surrogatepass"))


def stored_bytes(text: bytes) -> int:
    """Return the bytes that a JSON text takes in the API server's database."""
    return len(text) + sum(more * text.count(escaped) for escaped, more in _ESCAPES.items())


def shortened_to_bytes(text: str, most: int) -> str:
    """Cut a text so that it takes at most ``most`` bytes in the API server's database; see ``stored_size``."""
    if _MOST_OF_CHARACTER * len(text) <= most or stored_size(text) <= most:
        return text
    text = text[:most]  # each character takes at least one byte
    fits = bisect_right(range(len(text) + 1), most - 3, key=lambda length: stored_size(text[:length])) - 1
    return f"{text[:fits]}…"


def cut_to_bytes(text: str, most: int) -> str:
    """Cut a text to ``most`` bytes of UTF-8, between two characters. Half characters (surrogates) become ``?``."""
    return text.encode(errors="replace")[:most].decode(errors="ignore")


def _checked_quantity(text: str) -> str:
    parse_quantity(text)
    return text


def _checked_duration(text: str) -> str:
    parse_duration(text)
    return text


def _cut_to(most: int) -> Callable[[object], object]:
    return lambda text: shortened(_whole(text), most) if isinstance(text, str) else text


def _whole(text: str) -> str:
    """Replace half characters (surrogates), which the API server rejects, with ``?``."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def cel_rule(rule: str, message: str, expression: str | None = None) -> dict[str, JsonValue]:
    """Return an ``x-kubernetes-validations`` entry: the condition and the message for a violation.

    ``expression`` is CEL for a message that contains the value.
    """
    out: dict[str, JsonValue] = {"rule": rule, "message": message}
    return out | ({"messageExpression": expression} if expression else {})


# Rules instead of a pattern, because the API server shows users the raw pattern.
_QUANTITY_RULES: list[JsonValue] = [
    cel_rule(f"self.matches('{QUANTITY_PATTERN}')", f"it {_QUANTITY_HINT}", f"self + ' {_QUANTITY_HINT}'"),
    cel_rule(
        f"!self.matches('{QUANTITY_PATTERN}') || !quantity(self).isGreaterThan(quantity('1Ei'))",
        f"it {_MOST_BYTES_HINT}",
        f"self + ' {_MOST_BYTES_HINT}'",
    ),
]
Quantity = Annotated[
    str,
    Field(max_length=32, json_schema_extra={"x-kubernetes-validations": _QUANTITY_RULES}),
    AfterValidator(_checked_quantity),
]
DURATION_RULE = cel_rule(
    f"duration(self) <= duration('{_MOST_DURATION}')", f"it {_MOST_DURATION_HINT}", f"self + ' {_MOST_DURATION_HINT}'"
)
Duration = Annotated[
    str,
    Field(pattern=DURATION_PATTERN, max_length=32, json_schema_extra={"x-kubernetes-validations": [DURATION_RULE]}),
    AfterValidator(_checked_duration),
]
# Cut on writing and reading, never refused: the writer repeats texts of other systems.
Message = Annotated[str, BeforeValidator(_cut_to(32768)), Field(max_length=32768)]  # by the API's convention
MOST_SHORT_MESSAGE = 1024  # characters
ShortMessage = Annotated[str, BeforeValidator(_cut_to(MOST_SHORT_MESSAGE)), Field(max_length=MOST_SHORT_MESSAGE)]
# Written by another component. BoundedModel and read_bounded cut longer values on reading.
NameText = Annotated[str, Field(max_length=253), Meta(max_length=253)]
DigestText = Annotated[str, Field(max_length=64), Meta(max_length=64)]
Name = Annotated[str, Field(pattern=DNS_SUBDOMAIN_PATTERN, min_length=1, max_length=253)]


def format_bytes(count: float) -> str:
    """Write bytes for columns, events and the CLI: ``1536`` -> ``1.5 KiB``."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(count) < 1024 or unit == "TiB":
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    raise AssertionError("unreachable")


def format_duration(seconds: float) -> str:
    """Write seconds for columns, events and the CLI: ``3725`` -> ``1h2m5s``."""
    whole = max(0, round(seconds))
    hours, rest = divmod(whole, 3600)
    minutes, secs = divmod(rest, 60)
    parts = [(hours, "h"), (minutes, "m"), (secs, "s")]
    return "".join(f"{number}{unit}" for number, unit in parts if number) or "0s"


class Model(BaseModel):
    """Base of every API type.

    CamelCase on the wire, frozen in memory. Ignores unknown fields, which the API server prunes.
    """

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True, extra="ignore")

    def wire(self) -> dict[str, object]:
        """Return the JSON form, without unset (None) fields."""
        return self.model_dump(by_alias=True, exclude_none=True, mode="json")


def with_old_name(rule: JsonValue, old: str, new: str) -> ConfigDict:
    """Return the configuration of a model with a CEL rule and a renamed field, whose old name stays in the schema.

    The field reads both names by ``AliasChoices``. It has no default in the schema, because the API server would add
    the new name to objects that have the old one.
    """

    def add(schema: dict[str, Any]) -> None:
        schema["x-kubernetes-validations"] = [rule]
        fields = schema["properties"]
        fields[new].pop("default", None)
        fields[old] = {**fields[new], "description": f"Deprecated: use {new}, which has precedence."}

    return ConfigDict(json_schema_extra=add)


class BoundedModel(Model):
    """A model that cuts its texts and lists to their bounds on reading, at any depth, instead of refusing them.

    Nodes and operators of two releases read each other's objects. An older release may have other bounds, or none.
    """

    @model_validator(mode="wrap")
    @classmethod
    def _cut_on_reading(cls, given: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        return _reading(handler, given)


def read_bounded(model: type[R], given: Mapping[str, Any]) -> R:
    """Parse one row as BoundedModel does, for lists with many rows. Raises ValidationError."""
    return _reading(model.model_validate, given)


def _reading(read: Callable[[Any], T], given: Any) -> T:
    for _ in range(_ROUNDS):
        try:
            return read(given)
        except ValidationError as error:
            given = _cut(given, error)
    return read(given)


def _cut(given: Any, error: ValidationError) -> Any:
    """Return a copy with shorter texts and lists where pydantic reports them as too long. Other errors stay."""
    copied = _copied(given)
    for wrong in error.errors(include_url=False, include_input=False):
        most = wrong.get("ctx", {}).get("max_length")
        if wrong["loc"] and (most is not None or wrong["type"] == "string_unicode"):
            _cut_at(copied, wrong["loc"], most)
    return copied


def _cut_at(holder: Any, place: tuple[int | str, ...], most: int | None) -> None:
    """Cut the value at ``place`` to ``most`` characters or items. With None, only replace half characters."""
    key = _key(holder, place[0])
    if key is not None and place[1:]:
        _cut_at(holder[key], place[1:], most)
    elif key is not None:
        holder[key] = _cut_value(holder[key], most)


def _cut_value(value: Any, most: int | None) -> Any:
    if isinstance(value, str):
        return shortened(_whole(value), len(value) if most is None else most)
    return value[:most]


def _copied(given: Any) -> Any:
    if isinstance(given, Mapping):
        return {key: _copied(value) for key, value in given.items()}
    return [_copied(value) for value in given] if isinstance(given, list | tuple) else given


def _key(holder: Any, step: int | str) -> int | str | None:
    """Return the key of a step, which pydantic names as on the wire; None if plain JSON has no such key."""
    if isinstance(step, str) and isinstance(holder, dict):
        return step if step in holder else next((name for name in holder if to_camel(str(name)) == step), None)
    return step if isinstance(step, int) and isinstance(holder, list) else None


class Readable(Protocol):
    """A type that reads JSON as a model does."""

    @classmethod
    def model_validate(cls, raw: Any, /) -> Self:
        """Read a value. Raises ValidationError."""


class PrinterColumn(Model):
    """One column of ``kubectl get``; ``priority`` 1 shows only with ``-o wide``."""

    name: str
    type: Literal["string", "integer", "number", "boolean", "date"]
    json_path: str
    priority: int = 0
    description: str | None = None


class ObjectMeta(Model):
    """The part of metav1.ObjectMeta that Stoker reads."""

    name: str
    namespace: str = ""
    uid: str = ""
    generation: int = 0
    resource_version: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)
    finalizers: tuple[str, ...] = ()


class Condition(Model):
    """metav1.Condition."""

    type: Annotated[str, Field(description="Type of the condition.", max_length=316)]
    status: Literal["True", "False", "Unknown"]
    reason: Annotated[
        str, Field(description="One CamelCase word; docs/operations/troubleshooting.md explains each.", max_length=1024)
    ]
    message: Annotated[Message, Field(description="Explains the condition in a sentence.")] = ""
    observed_generation: Annotated[int, Field(ge=0, json_schema_extra={"format": "int64"})] = 0
    last_transition_time: Annotated[str, Field(json_schema_extra={"format": "date-time"})]


class Resource(Model):
    """Base of the Stoker kinds. Subclasses define the columns of ``kubectl get``."""

    KIND: ClassVar[str]
    PLURAL: ClassVar[str]
    SHORT_NAMES: ClassVar[tuple[str, ...]]
    SCOPE: ClassVar[Literal["Namespaced", "Cluster"]]
    COLUMNS: ClassVar[tuple[PrinterColumn, ...]]
    SCALE: ClassVar[dict[str, str] | None] = None
    RULES: ClassVar[tuple[dict[str, JsonValue], ...]] = ()  # CEL rules about the whole object, such as its name

    metadata: ObjectMeta

    @property
    def key(self) -> str:
        """The object's ``namespace/name``, or ``name`` for cluster-scoped kinds."""
        return f"{self.metadata.namespace}/{self.metadata.name}" if self.metadata.namespace else self.metadata.name

"""Building blocks of all kinds: the base model, conditions, quantities, durations and texts of bounded length."""

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, JsonValue
from pydantic.alias_generators import to_camel

# resource.Quantity's suffixes (k8s.io/apimachinery/pkg/api/resource).
_SUFFIXES = {"n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3"), "": Decimal(1)}
_SUFFIXES |= {suffix: Decimal(1000) ** (power + 1) for power, suffix in enumerate("kMGTPE")}
_SUFFIXES |= {f"{suffix}i": Decimal(1024) ** (power + 1) for power, suffix in enumerate("KMGTPE")}
_NUMBER = re.compile(r"([+-]?[0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]+)?|[+-]?[0-9]+\.)([A-Za-z]*)")
QUANTITY_PATTERN = r"^[0-9]+([.][0-9]+)?(k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?$"
_QUANTITY_HINT = "is not a quantity of bytes: write for example 500Mi, 200Gi or 2T"
MOST_INT64 = 2**63 - 1  # of the API server's integers; resource.Quantity stops there too
MOST_BYTES = 2**60  # 1Ei: more than any store holds, and a thousand nodes' sums of it can be told from int64's end
_MOST_BYTES_HINT = "is more than 1Ei: write less, or leave it out for no limit"
# Characters of a quantity; a longer one is none that anyone wrote, and Kubernetes' own have 20 at most.
_MOST_DIGITS = 64
_DIGITS_OF_INT64 = 40  # digits before or behind the point, from which a number is far out of int64 whatever its suffix
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
DURATION_PATTERN = r"^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$"
MOST_SECONDS = 365 * 86400.0
_MOST_DURATION = "8760h"
_DURATION_HINT = "is not a duration: write for example 30s, 10m or 1h30m"
_MOST_DURATION_HINT = f"is longer than a year: write {_MOST_DURATION} or less"
DNS_LABEL_PATTERN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
DNS_SUBDOMAIN_PATTERN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"


def parse_number(text: str | int | float) -> Decimal:
    """Read any Kubernetes quantity, such as ``100m``, ``1.5Gi`` or ``1e3``; what is beyond int64 is its end.

    Raises ValueError with a sentence.
    """
    match = _NUMBER.fullmatch(str(text).strip()) if len(str(text)) <= _MOST_DIGITS else None
    if match is None or match.group(2) not in _SUFFIXES:
        raise ValueError(f"{shortened(str(text), 40)!r} is not a Kubernetes quantity")
    number = Decimal(match.group(1))
    # Asked before any arithmetic: 1e999999999 has as many digits.
    if number and abs(number.adjusted()) >= _DIGITS_OF_INT64:
        number = Decimal(0) if number.adjusted() < 0 else Decimal(MOST_INT64).copy_sign(number)
    return max(min(number * _SUFFIXES[match.group(2)], Decimal(MOST_INT64)), Decimal(-MOST_INT64))


def parse_quantity(text: str) -> int:
    """Read the bytes of a quantity such as ``200Gi``, as our CRDs take it. Raises ValueError with a sentence."""
    if re.fullmatch(QUANTITY_PATTERN, text.strip()) is None:
        raise ValueError(f"{text!r} {_QUANTITY_HINT}")
    count = int(parse_number(text))
    if count > MOST_BYTES:
        raise ValueError(f"{text!r} {_MOST_BYTES_HINT}")
    return count


def parse_duration(text: str) -> float:
    """Read seconds of a Go-style duration such as ``1h30m``. Raises ValueError with a sentence."""
    if re.fullmatch(DURATION_PATTERN, text.strip()) is None:
        raise ValueError(f"{shortened(text, 40)!r} {_DURATION_HINT}")
    parts = re.findall(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)", text)
    seconds = sum(float(number) * _SECONDS[unit] for number, unit in parts)
    if seconds > MOST_SECONDS:
        raise ValueError(f"{shortened(text, 40)!r} {_MOST_DURATION_HINT}")
    return seconds


def shortened(text: str, most: int) -> str:
    """Cut a text to ``most`` characters: others' words, such as an object store's, may be of any length."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _checked_quantity(text: str) -> str:
    parse_quantity(text)
    return text


def _checked_duration(text: str) -> str:
    parse_duration(text)
    return text


def _cut_to(most: int) -> Callable[[object], object]:
    return lambda text: shortened(text, most) if isinstance(text, str) else text


def cel_rule(rule: str, message: str, expression: str | None = None) -> dict[str, JsonValue]:
    """Return an ``x-kubernetes-validations`` entry: what must hold, and what is said otherwise.

    ``expression``: CEL for a message with the value.
    """
    out: dict[str, JsonValue] = {"rule": rule, "message": message}
    return out | ({"messageExpression": expression} if expression else {})


# Rules in place of a pattern, which people would be shown as it is.
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
# Cut where they are made or read, never refused: who writes them repeats others' words.
Message = Annotated[str, BeforeValidator(_cut_to(32768)), Field(max_length=32768)]  # by the API's convention
ShortMessage = Annotated[str, BeforeValidator(_cut_to(1024)), Field(max_length=1024)]
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

    CamelCase on the wire, frozen in memory, unknown fields ignored (the API server prunes them).
    """

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True, extra="ignore")

    def wire(self) -> dict[str, object]:
        """Return the JSON form, without unset (None) fields."""
        return self.model_dump(by_alias=True, exclude_none=True, mode="json")


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
        str, Field(description="One CamelCase word; docs/TROUBLESHOOTING.md explains each.", max_length=1024)
    ]
    message: Annotated[Message, Field(description="What it means, in a sentence.")] = ""
    observed_generation: Annotated[int, Field(ge=0, json_schema_extra={"format": "int64"})] = 0
    last_transition_time: Annotated[str, Field(json_schema_extra={"format": "date-time"})]


class Resource(Model):
    """Base of our kinds; subclasses say how ``kubectl get`` shows them."""

    KIND: ClassVar[str]
    PLURAL: ClassVar[str]
    SHORT_NAMES: ClassVar[tuple[str, ...]]
    SCOPE: ClassVar[Literal["Namespaced", "Cluster"]]
    COLUMNS: ClassVar[tuple[PrinterColumn, ...]]
    SCALE: ClassVar[dict[str, str] | None] = None

    metadata: ObjectMeta

    @property
    def key(self) -> str:
        """Where the object is: ``namespace/name``, or ``name`` for cluster-scoped kinds."""
        return f"{self.metadata.namespace}/{self.metadata.name}" if self.metadata.namespace else self.metadata.name

"""The size of a scratch layer: a private writable layer of a volume over the read-only files of its Dataset."""

from typing import Annotated

from pydantic import AfterValidator, Field

from stoker_api.meta import QUANTITY_PATTERN, cel_rule, format_bytes, parse_quantity, shortened

LEAST_SCRATCH, MOST_SCRATCH = 64 * 1024**2, 8 * 1024**4  # bytes; a file of ext4 has at most 16 TiB
MOST_SCRATCH_TEXT = 32  # characters
_BLOCK = 4096


def parse_scratch(text: str) -> int:
    """Parse a size such as ``20Gi``, rounded down to blocks of 4 KiB. Raises ValueError with a sentence."""
    limits = f"from {format_bytes(LEAST_SCRATCH)} to {format_bytes(MOST_SCRATCH)}"
    try:
        size = parse_quantity(text) if len(text) <= MOST_SCRATCH_TEXT else 0
    except ValueError:
        size = 0
    if not LEAST_SCRATCH <= size <= MOST_SCRATCH:
        raise ValueError(f"scratch={shortened(text, MOST_SCRATCH_TEXT)} must be a size {limits}, such as scratch=20Gi")
    return size - size % _BLOCK


def _checked(text: str) -> str:
    parse_scratch(text)
    return text


_LIMITS = (
    f"self.matches('{QUANTITY_PATTERN}') && quantity(self).compareTo(quantity('{LEAST_SCRATCH}')) >= 0 "
    f"&& quantity(self).compareTo(quantity('{MOST_SCRATCH}')) <= 0"
)
_HINT = "must be a size from 64Mi to 8Ti, such as 20Gi"
ScratchSize = Annotated[
    str,
    Field(
        max_length=MOST_SCRATCH_TEXT,
        json_schema_extra={"x-kubernetes-validations": [cel_rule(_LIMITS, f"it {_HINT}", f"self + ' {_HINT}'")]},
    ),
    AfterValidator(_checked),
]

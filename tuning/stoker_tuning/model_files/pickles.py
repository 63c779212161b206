"""Reads the contents of a pickle from its opcodes: nothing is loaded, so no code in it runs."""

import pickletools
import struct
from dataclasses import dataclass, field
from io import BytesIO

from stoker_tuning.model_files.formats import ModelFileFinding, ModelFileFormat
from stoker_tuning.model_files.names import kind_by_keys
from stoker_tuning.vocabulary import ModelFileKind

_MOST_OPCODES = 4096
_MOST_KEYS = 1024
_LONGEST_KEY = 200  # characters
_STRINGS = {"BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "UNICODE", "SHORT_BINSTRING", "BINSTRING", "STRING"}
_INTEGERS = {"BININT", "BININT1", "BININT2", "LONG1", "INT"}
_MODEL_GLOBALS = ("torch", "numpy.core.multiarray", "numpy._core.multiarray", "sklearn.", "xgboost.", "lightgbm.")
_LEGACY_TORCH = 0x1950A86A20F9469CFC6C
_DAMAGED = (ValueError, OverflowError, IndexError, KeyError, struct.error)


@dataclass
class PickleContents:
    """The strings and globals in a pickle, in its order; ``epoch``: the number after that key."""

    keys: dict[str, None] = field(default_factory=dict)
    modules: set[str] = field(default_factory=set)
    epoch: int | None = None
    opcodes: int = 0
    legacy_torch: bool = False


def walk(data: bytes) -> PickleContents:
    """Walk the first 4,096 opcodes of a pickle, until they are incomplete."""
    found = PickleContents()
    last = ""
    before: list[str] = []
    try:
        for opcode, argument, _ in pickletools.genops(BytesIO(data)):
            found.opcodes += 1
            if found.opcodes > _MOST_OPCODES or len(found.keys) > _MOST_KEYS:
                break
            if opcode.name in _STRINGS and isinstance(argument, str):
                last = argument[:_LONGEST_KEY]
                found.keys[last] = None
                before = [*before[-1:], last]
            elif opcode.name == "GLOBAL" and isinstance(argument, str):
                found.modules.add(argument[:_LONGEST_KEY])
            elif opcode.name == "STACK_GLOBAL" and before:
                found.modules.add(" ".join(before))
            elif opcode.name in _INTEGERS and isinstance(argument, int):
                _take_number(found, last, argument)
                last = ""
    except _DAMAGED:
        pass  # cut off, or no pickle: the contents before that count
    return found


def _take_number(found: PickleContents, key: str, number: int) -> None:
    if key == "epoch" and 0 <= number < 10**9:
        found.epoch = number
    found.legacy_torch = found.legacy_torch or number == _LEGACY_TORCH


def finding_of_pickle(data: bytes, form: ModelFileFormat = ModelFileFormat.PICKLE) -> ModelFileFinding | None:
    """Judge a pickle by its names; None for other files."""
    starts = data[:1] == b"\x80" and data[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05")
    if not starts:
        return None
    found = walk(data)
    if found.opcodes < 2:
        return None
    if found.legacy_torch:
        found = _behind_legacy_header(data)
    kind = kind_by_keys(found.keys)
    if kind is ModelFileKind.UNKNOWN and any(module.startswith(_MODEL_GLOBALS) for module in found.modules):
        return ModelFileFinding(form, ModelFileKind.WEIGHTS, 0.5)
    sure = 0.6 if kind is ModelFileKind.UNKNOWN else 0.9
    return ModelFileFinding(form, kind, sure, found.epoch if kind is ModelFileKind.CHECKPOINT else None)


def _behind_legacy_header(data: bytes) -> PickleContents:
    """Walk the pickles of torch's legacy format: magic number, version and machine facts come first."""
    found = PickleContents()
    stream, pickles = BytesIO(data), 0
    try:
        while pickles < 4 and not any(key.endswith((".weight", ".bias")) for key in found.keys):
            for _ in pickletools.genops(stream):
                found.opcodes += 1
                if found.opcodes > _MOST_OPCODES:
                    return found
            pickles += 1
            found = walk(data[stream.tell() :])
    except _DAMAGED:
        pass  # cut off: the last pickle that was reached counts
    return found

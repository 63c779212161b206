"""ONNX and SavedModel: protobuf messages, recognized by their first fields."""

from collections.abc import Iterator
from typing import NamedTuple

from stoker_tuning.model_files.formats import ModelFileFinding, ModelFileFormat
from stoker_tuning.vocabulary import ModelFileKind

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_MOST_FIELDS = 64
_MOST_IR_VERSION = 64  # ONNX was at 12 in 2025
# ModelProto: ir_version 1, producer_name 2, producer_version 3, domain 4, model_version 5, doc_string 6, graph 7,
# opset_import 8, metadata_props 14, training_info 20, functions 25, configuration 26.
_ONNX = {1: _VARINT, 5: _VARINT, **dict.fromkeys((2, 3, 4, 6, 7, 8, 14, 20, 25, 26), _BYTES)}
_GRAPH, _OPSETS = 7, 8
# GraphProto's: node, name, initializer, doc_string, input, output, value_info, quantization, sparse, metadata.
_ONNX_GRAPH = {1, 2, 5, 10, 11, 12, 13, 14, 15, 16}


class WireField(NamedTuple):
    """A field of a message: its number and wire type; a varint's value; the field's bytes in the head."""

    number: int
    wire_type: int
    value: int
    content: bytes


def walk_fields(data: bytes) -> Iterator[WireField]:
    """Yield the first 64 fields of a message, until one is invalid; the last one's bytes may be cut off."""
    at = 0
    for _ in range(_MOST_FIELDS):
        key, at = _varint(data, at)
        number, wire_type = key >> 3, key & 7
        if at < 0 or not number:
            return
        if wire_type in (_FIXED64, _FIXED32):
            size, start = (8 if wire_type == _FIXED64 else 4), at
        elif wire_type in (_VARINT, _BYTES):
            size, start = _varint(data, at)
            if start < 0:
                return
        else:
            return
        if wire_type == _VARINT:
            at = start
            yield WireField(number, wire_type, size, b"")
            continue
        at = start + size
        yield WireField(number, wire_type, size, data[start:at])


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a variable-length integer and the position of the next field; -1 if the integer is incomplete."""
    value = 0
    for index in range(10):
        if at + index >= len(data):
            return 0, -1
        byte = data[at + index]
        value |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return value, at + index + 1
    return 0, -1


def finding_of_onnx(head: bytes) -> ModelFileFinding | None:
    """Return a finding if the fields are those of ONNX's ModelProto, beginning with its version; else None."""
    fields = list(walk_fields(head))
    if len(fields) < 2 or fields[0].number != 1 or not 0 < fields[0].value <= _MOST_IR_VERSION:
        return None
    if any(_ONNX.get(field.number) != field.wire_type for field in fields):
        return None
    graph = next((field for field in fields if field.number == _GRAPH), None)
    if graph is None:
        named = any(field.number == _OPSETS for field in fields)
        return ModelFileFinding(ModelFileFormat.ONNX, ModelFileKind.WEIGHTS, 0.7) if named else None
    inner = next(walk_fields(graph.content), None)
    if inner is None or inner.number not in _ONNX_GRAPH or inner.wire_type != _BYTES:
        return None
    return ModelFileFinding(ModelFileFormat.ONNX, ModelFileKind.WEIGHTS, 0.9)


def finding_of_saved_model(head: bytes) -> ModelFileFinding | None:
    """Return a finding for TensorFlow's SavedModel: schema version 1, then graphs that begin with metadata."""
    fields = list(walk_fields(head))
    if len(fields) < 2 or fields[0][:3] != (1, _VARINT, 1):
        return None
    if any((field.number, field.wire_type) != (2, _BYTES) for field in fields[1:]):
        return None
    inner = next(walk_fields(fields[1].content), None)  # MetaGraphDef begins with its MetaInfoDef
    if inner is None or (inner.number, inner.wire_type) not in ((1, _BYTES), (2, _BYTES)):
        return None
    return ModelFileFinding(ModelFileFormat.SAVED_MODEL, ModelFileKind.ARCHITECTURE, 0.8)

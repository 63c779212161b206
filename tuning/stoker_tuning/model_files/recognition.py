"""The entry point of this package: the role of a file in a model, from its name, its first bytes and its last."""

import struct
from collections.abc import Iterator
from dataclasses import replace

from stoker_tuning.model_files.formats import MOST_HEAD, MOST_TAIL, NOTHING, ModelFileFinding, ModelFileFormat
from stoker_tuning.model_files.names import epoch_in_name, kind_by_name
from stoker_tuning.model_files.pickles import finding_of_pickle
from stoker_tuning.model_files.protobufs import finding_of_onnx, finding_of_saved_model
from stoker_tuning.model_files.tensors import (
    finding_of_gguf,
    finding_of_hdf5,
    finding_of_json,
    finding_of_numpy,
    finding_of_ocdbt,
    finding_of_safetensors,
    finding_of_table,
)
from stoker_tuning.vocabulary import ModelFileKind

_LOCAL = b"PK\x03\x04"
_CENTRAL = b"PK\x01\x02"
_STORED = 0
_MOST_NAMES = 1024
_HEADER = 30
_CENTRAL_HEADER = 46


def finding_of_zip(head: bytes, tail: bytes) -> ModelFileFinding | None:
    """Judge a zip by the names of its members, and PyTorch's also by its pickle; None for other files."""
    if not head.startswith(_LOCAL):
        return None
    names = [*_local_names(head), *_central_names(tail)]
    pickled = any(name.endswith("/data.pkl") for name in names)
    if pickled and any("/code/" in name or name.endswith("/constants.pkl") for name in names):
        return ModelFileFinding(ModelFileFormat.TORCHSCRIPT, ModelFileKind.WEIGHTS, 0.95)
    if pickled:
        inside = finding_of_pickle(_first_content(head), ModelFileFormat.PYTORCH)
        return inside or ModelFileFinding(ModelFileFormat.PYTORCH, ModelFileKind.WEIGHTS, 0.6)
    if any(name == "model.weights.h5" for name in names):
        return ModelFileFinding(ModelFileFormat.KERAS, ModelFileKind.WEIGHTS, 0.95)
    if names and names[0].endswith(".npy"):
        return ModelFileFinding(ModelFileFormat.NUMPY_ZIP, ModelFileKind.UNKNOWN, 0.6)
    return ModelFileFinding(ModelFileFormat.ZIP, ModelFileKind.UNKNOWN, 0.3)


def _local_names(head: bytes) -> Iterator[str]:
    """Yield the names of the members at the start, until a header is incomplete."""
    at = 0
    for _ in range(_MOST_NAMES):
        if len(head) < at + _HEADER or head[at : at + 4] != _LOCAL:
            return
        size, name_size, extra_size = struct.unpack_from("<I4xHH", head, at + 18)
        yield head[at + _HEADER : at + _HEADER + name_size].decode("utf-8", "replace")
        at += _HEADER + name_size + extra_size + size


def _central_names(tail: bytes) -> Iterator[str]:
    """Yield the names of the directory at the end."""
    at = tail.find(_CENTRAL)
    for _ in range(_MOST_NAMES):
        if at < 0 or len(tail) < at + _CENTRAL_HEADER:
            return
        name_size, extra_size, comment_size = struct.unpack_from("<HHH", tail, at + 28)
        yield tail[at + _CENTRAL_HEADER : at + _CENTRAL_HEADER + name_size].decode("utf-8", "replace")
        following = at + _CENTRAL_HEADER + name_size + extra_size + comment_size
        at = following if tail[following : following + 4] == _CENTRAL else -1


def _first_content(head: bytes) -> bytes:
    """Return the bytes from the first member on if it is stored uncompressed; else empty."""
    if len(head) < _HEADER:
        return b""
    (method,) = struct.unpack_from("<H", head, 8)
    name_size, extra_size = struct.unpack_from("<HH", head, 26)
    return head[_HEADER + name_size + extra_size :] if method == _STORED else b""


_BY_NAME_ALONE = 0.5
_NAME_CONFIRMS = 0.97


def recognise(name: str, head: bytes, tail: bytes = b"") -> ModelFileFinding:
    """Return the role of a file in a model. ``head``, ``tail``: its first and last bytes, 64 KiB each at most.

    The bytes decide; the name decides if they are ambiguous. Sizes are ignored. Never raises, for any bytes.
    """
    found = next(_findings(head[:MOST_HEAD], tail[-MOST_TAIL:]), NOTHING)
    named = kind_by_name(name)
    epoch = found.epoch if found.epoch is not None else epoch_in_name(name)
    if found.kind is ModelFileKind.UNKNOWN:
        sure = _BY_NAME_ALONE if named is not ModelFileKind.UNKNOWN else found.confidence
        return replace(found, kind=named, confidence=sure, epoch=_epoch(named, epoch))
    kind = _together(found.kind, named)
    sure = _NAME_CONFIRMS if kind is named else found.confidence
    return replace(found, kind=kind, confidence=sure, epoch=_epoch(kind, epoch))


def _findings(head: bytes, tail: bytes) -> Iterator[ModelFileFinding]:
    """Yield the finding of each format, those with a magic number first."""
    for finding in (
        finding_of_gguf(head),
        finding_of_numpy(head),
        finding_of_hdf5(head),
        finding_of_zip(head, tail),
        finding_of_ocdbt(head),
        finding_of_pickle(head),
        finding_of_safetensors(head),
        finding_of_json(head),
        finding_of_table(head, tail),
        finding_of_saved_model(head),
        finding_of_onnx(head),
    ):
        if finding is not None:
            yield finding


def _together(found: ModelFileKind, named: ModelFileKind) -> ModelFileKind:
    """Return Checkpoint for weights under a checkpoint's name; else the kind by the bytes."""
    return named if (found, named) == (ModelFileKind.WEIGHTS, ModelFileKind.CHECKPOINT) else found


def _epoch(kind: ModelFileKind, epoch: int | None) -> int | None:
    return epoch if kind in (ModelFileKind.CHECKPOINT, ModelFileKind.OPTIMIZER) else None

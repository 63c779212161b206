"""Zip files that hold models: PyTorch's, TorchScript's, Keras', and NumPy's archives of arrays."""

import struct
from collections.abc import Iterator

from stoker_tuning.model_files.formats import ModelFileFinding, ModelFileFormat
from stoker_tuning.model_files.pickles import finding_of_pickle
from stoker_tuning.vocabulary import ModelFileKind

_LOCAL = b"PK\x03\x04"
_CENTRAL = b"PK\x01\x02"
_STORED = 0
_MOST_NAMES = 1024
_HEADER = 30
_CENTRAL_HEADER = 46


def finding_of_zip(head: bytes, tail: bytes) -> ModelFileFinding | None:
    """Judge a zip by the names of its members, and PyTorch's by the pickle in it too; None when it is none."""
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
    """Yield the names of the members at the start, as far as each says where the next one is."""
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
    """Return the first member's bytes, when they are stored as they are; what lies behind them as well."""
    if len(head) < _HEADER:
        return b""
    (method,) = struct.unpack_from("<H", head, 8)
    name_size, extra_size = struct.unpack_from("<HH", head, 26)
    return head[_HEADER + name_size + extra_size :] if method == _STORED else b""

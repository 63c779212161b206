"""Formats with a magic number or a plain header: safetensors, GGUF, HDF5, NumPy, OCDBT, TensorFlow's index, JSON."""

import re
import struct

from stoker_tuning.model_files.formats import ModelFileFinding, ModelFileFormat
from stoker_tuning.model_files.names import kind_by_keys
from stoker_tuning.vocabulary import ModelFileKind

_MOST_SAFETENSORS_HEADER = 100_000_000  # bytes, by the format's rule
_TENSOR = re.compile(rb'"([^"\\]{1,200})"\s{0,8}:\s{0,8}\{\s{0,8}"dtype"')
_SAFETENSORS_METADATA = re.compile(rb'\{\s{0,8}"__metadata__"')
_MOST_GGUF_VERSION = 16
_HDF5 = b"\x89HDF\r\n\x1a\n"
_HDF5_AT = (0, 512, 1024, 2048)  # a user block of such a size may come first
_KERAS = (b"model_weights", b"keras_version", b"layer_names", b"_layer_checkpoint_dependencies")
_KERAS_OPTIMIZER = (b"optimizer_weights", b"optimizer")
_OCDBT = (b"\x0c\xdb\x3a\x2a", b"\x0c\xdb\x20\xde", b"\x0c\xdb\x12\x34")  # manifest, B+tree node, version tree node
_LEVELDB_TABLE = bytes.fromhex("57fb808b247547db")  # the end of TensorFlow's .index files
_JSON = {
    ModelFileKind.ARCHITECTURE: (b'"architectures"', b'"model_type"', b'"_class_name"', b'"hidden_size"'),
    ModelFileKind.METADATA: (
        b'"weight_map"',
        b'"added_tokens"',
        b'"tokenizer_class"',
        b'"log_history"',
        b'"bos_token"',
    ),
}


def finding_of_safetensors(head: bytes) -> ModelFileFinding | None:
    """Judge a safetensors header (a length and JSON) by its tensors."""
    if len(head) < 10:
        return None
    (size,) = struct.unpack_from("<Q", head)
    if not 2 <= size <= _MOST_SAFETENSORS_HEADER or head[8:9] != b"{":
        return None
    header = head[8 : 8 + size]
    names = [name.decode("utf-8", "replace") for name in _TENSOR.findall(header)]
    if not names and not _SAFETENSORS_METADATA.match(header) and header.strip() != b"{}":
        return None
    kind = kind_by_keys(names)
    kind = ModelFileKind.WEIGHTS if kind is ModelFileKind.UNKNOWN else kind
    return ModelFileFinding(ModelFileFormat.SAFETENSORS, kind, 0.95)


def finding_of_gguf(head: bytes) -> ModelFileFinding | None:
    """Judge llama.cpp's format by its magic number and a plausible version."""
    if head[:4] != b"GGUF" or len(head) < 8:
        return None
    versions = (struct.unpack_from(order, head, 4)[0] for order in ("<I", ">I"))
    if not any(1 <= version <= _MOST_GGUF_VERSION for version in versions):
        return None
    return ModelFileFinding(ModelFileFormat.GGUF, ModelFileKind.WEIGHTS, 0.95)


def finding_of_hdf5(head: bytes) -> ModelFileFinding | None:
    """Judge HDF5 by the groups that Keras creates; without them it may be data."""
    if not any(head[at : at + len(_HDF5)] == _HDF5 for at in _HDF5_AT):
        return None
    if any(word in head for word in _KERAS):
        trained = any(word in head for word in _KERAS_OPTIMIZER)
        kind = ModelFileKind.CHECKPOINT if trained else ModelFileKind.WEIGHTS
        return ModelFileFinding(ModelFileFormat.HDF5, kind, 0.8)
    return ModelFileFinding(ModelFileFormat.HDF5, ModelFileKind.UNKNOWN, 0.6)


def finding_of_numpy(head: bytes) -> ModelFileFinding | None:
    """Judge an array of NumPy, which is usually data."""
    if head[:6] != b"\x93NUMPY" or head[6:7] not in (b"\x01", b"\x02", b"\x03"):
        return None
    return ModelFileFinding(ModelFileFormat.NUMPY, ModelFileKind.UNKNOWN, 0.6)


def finding_of_ocdbt(head: bytes) -> ModelFileFinding | None:
    """Judge a file of TensorStore's database, in which Orbax stores checkpoints."""
    if head[:4] not in _OCDBT:
        return None
    kind = ModelFileKind.METADATA if head[:4] == _OCDBT[0] else ModelFileKind.CHECKPOINT
    return ModelFileFinding(ModelFileFormat.OCDBT, kind, 0.9)


def finding_of_table(head: bytes, tail: bytes) -> ModelFileFinding | None:
    """Judge TensorFlow's index of a checkpoint by its last bytes."""
    end = tail or head
    if len(end) < 48 or end[-8:] != _LEVELDB_TABLE:
        return None
    return ModelFileFinding(ModelFileFormat.TENSORFLOW_INDEX, ModelFileKind.METADATA, 0.7)


def finding_of_json(head: bytes) -> ModelFileFinding | None:
    """Judge a JSON object by keys that Hugging Face's libraries write."""
    if head.lstrip()[:1] != b"{":
        return None
    for kind, keys in _JSON.items():
        if any(key in head for key in keys):
            return ModelFileFinding(ModelFileFormat.JSON, kind, 0.8)
    return ModelFileFinding(ModelFileFormat.JSON, ModelFileKind.UNKNOWN, 0.3)

"""Small model files, written by the real library if it is installed, else from the public specification."""

import io
import json
import pickle
import struct
import zipfile
from typing import Any

import numpy

CHECKPOINT = {
    "epoch": 7,
    "model_state_dict": {"conv.weight": 1, "conv.bias": 2},
    "optimizer_state_dict": {"state": {}, "param_groups": [{"lr": 0.1}]},
}
WEIGHTS = {"conv.weight": 1, "conv.bias": 2}
OPTIMIZER = {"state": {0: {"step": 5, "exp_avg": 1}}, "param_groups": [{"lr": 0.1, "params": [0]}]}


def safetensors(*tensors: str) -> bytes:
    header = {
        name: {"dtype": "F32", "shape": [1], "data_offsets": [4 * index, 4 * index + 4]}
        for index, name in enumerate(tensors)
    }
    text = json.dumps({"__metadata__": {"format": "pt"}, **header}).encode()
    return struct.pack("<Q", len(text)) + text + bytes(4 * len(tensors))


def gguf() -> bytes:
    return b"GGUF" + struct.pack("<IQQ", 3, 1, 0)


def torch_zip(state: Any, *more: str, name: str = "archive") -> bytes:
    """Write members as torch.save does: stored, the pickle first."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(f"{name}/data.pkl", pickle.dumps(state, 2))
        for member in (f"{name}/version", *(f"{name}/{one}" for one in more)):
            archive.writestr(member, b"3\n")
    return out.getvalue()


def keras_zip() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for member in ("metadata.json", "config.json", "model.weights.h5"):
            archive.writestr(member, b"{}")
    return out.getvalue()


def numpy_array() -> bytes:
    out = io.BytesIO()
    numpy.save(out, numpy.zeros((4, 4)))
    return out.getvalue()


def numpy_archive() -> bytes:
    out = io.BytesIO()
    numpy.savez(out, a=numpy.zeros(4), b=numpy.ones(4))
    return out.getvalue()


def hdf5(*groups: str) -> bytes:
    """Return a superblock of version 0 and the names of groups, at the place of HDF5's heap."""
    return b"\x89HDF\r\n\x1a\n" + bytes(88) + b"HEAP" + b"\0".join(group.encode() for group in groups) + bytes(64)


def varint(value: int) -> bytes:
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def message(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def onnx(initializers: int = 2) -> bytes:
    """ModelProto: ir_version, producer_name, graph, opset_import."""
    node = message(1, message(1, b"x") + message(2, b"y") + message(4, b"Relu"))
    graph = node + message(2, b"graph") + message(5, bytes(50)) * initializers
    return b"\x08\x08" + message(2, b"pytorch") + message(7, graph) + message(8, b"\x10\x11")


def saved_model() -> bytes:
    """SavedModel: schema version 1, a MetaGraphDef that begins with its MetaInfoDef."""
    return b"\x08\x01" + message(2, message(1, message(4, b"serve")) + message(2, bytes(100)))


def ocdbt(magic: int) -> bytes:
    """Return the outer header of TensorStore's files: magic number, length, version, compression."""
    return struct.pack(">I", magic) + struct.pack("<Q", 64) + b"\0\0" + bytes(50)


def table() -> bytes:
    """Return the footer of a LevelDB table, like the end of TensorFlow's .index files."""
    return bytes(40) + struct.pack("<Q", 0xDB4775248B80FB57)

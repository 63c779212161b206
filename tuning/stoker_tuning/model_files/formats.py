"""The findings about a model file: its format and kind, with a confidence."""

from dataclasses import dataclass
from enum import StrEnum

from stoker_tuning.vocabulary import ModelFileKind

# Bytes read from the start and the end; the rest is ignored.
MOST_HEAD = 64 * 1024
MOST_TAIL = 64 * 1024


class ModelFileFormat(StrEnum):
    """The layout of a file's bytes."""

    SAFETENSORS = "safetensors"
    GGUF = "gguf"
    PICKLE = "pickle"
    PYTORCH = "pytorch"  # a zip with a pickle and its tensors
    TORCHSCRIPT = "torchscript"
    KERAS = "keras"  # a zip with HDF5 weights
    HDF5 = "hdf5"
    ONNX = "onnx"
    SAVED_MODEL = "saved_model"
    TENSORFLOW_INDEX = "tensorflow_index"
    NUMPY = "numpy"
    NUMPY_ZIP = "numpy_zip"
    OCDBT = "ocdbt"  # Orbax's checkpoints
    ZIP = "zip"
    JSON = "json"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class ModelFileFinding:
    """The format and kind of a file. ``confidence``: 0 to 1; ``epoch``: of a checkpoint, from its bytes or name."""

    format: ModelFileFormat
    kind: ModelFileKind
    confidence: float
    epoch: int | None = None


NOTHING = ModelFileFinding(ModelFileFormat.UNKNOWN, ModelFileKind.UNKNOWN, 0.0)

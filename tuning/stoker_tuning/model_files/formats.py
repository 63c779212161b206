"""What is found of a model file: its format and kind, and how sure."""

from dataclasses import dataclass
from enum import StrEnum

from stoker_tuning.vocabulary import ModelFileKind

# Bytes of the start and of the end that are looked at; whatever is given beyond is left alone.
MOST_HEAD = 64 * 1024
MOST_TAIL = 64 * 1024


class ModelFileFormat(StrEnum):
    """How a file's bytes are laid out."""

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
    """The format and kind of a file. ``confidence``: 0 to 1; ``epoch``: of a checkpoint, as its bytes or name say."""

    format: ModelFileFormat
    kind: ModelFileKind
    confidence: float
    epoch: int | None = None


NOTHING = ModelFileFinding(ModelFileFormat.UNKNOWN, ModelFileKind.UNKNOWN, 0.0)

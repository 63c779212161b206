"""The plug-ins for PyTorch, TensorFlow, JAX and Hugging Face.

Their rules are documents (documents/builtin/frameworks.yaml), where people read them as examples.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from stoker_tuning.frameworks.interface import Hint
from stoker_tuning.frameworks.signs import batch_size, imports, named
from stoker_tuning.model_files.formats import ModelFileFormat
from stoker_tuning.model_files.recognition import recognise

_FLAGS = ("--batch-size", "--batch_size", "-b")
_VARIABLES = ("BATCH_SIZE", "TRAIN_BATCH_SIZE")


class _WithoutRules:
    """A plug-in whose rules are documents."""

    def default_rules(self) -> Sequence[Mapping[str, Any]]:
        """Return none: see documents/builtin."""
        return ()

    def default_templates(self) -> Sequence[Mapping[str, Any]]:
        """Return none: see documents/builtin."""
        return ()

    def hints(self, context: Mapping[str, Any]) -> Mapping[str, Hint]:
        """Return the batch size from the command line, else from the environment."""
        return batch_size(context, _FLAGS, _VARIABLES)


class PytorchPlugin(_WithoutRules):
    """PyTorch: its archives, pickles with its tensors, programs that import it."""

    name = "pytorch"

    def detect(self, path: str, head: bytes) -> float:
        """Return the confidence, by one file, that PyTorch is in use."""
        by_format = {ModelFileFormat.PYTORCH: 0.95, ModelFileFormat.TORCHSCRIPT: 0.95, ModelFileFormat.SAFETENSORS: 0.5}
        return max(
            by_format.get(recognise(path, head).format, 0.0),
            named(path, {".pt": 0.7, ".pth": 0.8}),
            imports(path, head, "torch|torchvision|lightning|pytorch_lightning"),
        )


class TensorflowPlugin(_WithoutRules):
    """TensorFlow: SavedModels, its checkpoints, record files, programs that import it."""

    name = "tensorflow"

    def detect(self, path: str, head: bytes) -> float:
        """Return the confidence, by one file, that TensorFlow is in use."""
        by_format = {
            ModelFileFormat.SAVED_MODEL: 0.95,
            ModelFileFormat.TENSORFLOW_INDEX: 0.9,
            ModelFileFormat.KERAS: 0.9,
        }
        return max(
            by_format.get(recognise(path, head).format, 0.0),
            named(path, {".tfrecord": 0.7, ".tfrecords": 0.7, ".keras": 0.9, "saved_model.pb": 0.9}),
            imports(path, head, "tensorflow|keras"),
        )


class JaxPlugin(_WithoutRules):
    """JAX: Orbax's checkpoints, Grain's record files, programs that import it."""

    name = "jax"

    def detect(self, path: str, head: bytes) -> float:
        """Return the confidence, by one file, that JAX is in use."""
        return max(
            0.9 if recognise(path, head).format is ModelFileFormat.OCDBT else 0.0,
            named(
                path, {"manifest.ocdbt": 0.9, "_checkpoint_metadata": 0.9, ".array_record": 0.7, ".arrayrecord": 0.7}
            ),
            imports(path, head, "jax|flax|optax|orbax|grain"),
        )


class HuggingfacePlugin(_WithoutRules):
    """Hugging Face's libraries: a model's configuration and tokenizer, safetensors, programs that import them."""

    name = "huggingface"

    def detect(self, path: str, head: bytes) -> float:
        """Return the confidence, by one file, that these libraries are in use."""
        return max(
            0.95 if _is_configuration(path, head) else 0.0,
            0.6 if recognise(path, head).format is ModelFileFormat.SAFETENSORS else 0.0,
            named(
                path,
                {"tokenizer.json": 0.9, "tokenizer_config.json": 0.9, "generation_config.json": 0.9, ".arrow": 0.4},
            ),
            imports(path, head, "transformers|datasets|accelerate|diffusers|peft|trl"),
        )

    def hints(self, context: Mapping[str, Any]) -> Mapping[str, Hint]:
        """Return the batch size from the Trainer's flag, else from common flags or the environment."""
        flags = ("--per_device_train_batch_size", "--per-device-train-batch-size", *_FLAGS)
        return batch_size(context, flags, _VARIABLES)


def _is_configuration(path: str, head: bytes) -> bool:
    if not path.endswith("config.json"):
        return False
    try:
        found = json.loads(head)
    except (ValueError, RecursionError):
        return False
    return isinstance(found, dict) and bool({"model_type", "architectures", "transformers_version"} & found.keys())


# By name, in the notation of entry points.
BUILT_IN = {
    kind.name: f"{kind.__module__}:{kind.__name__}"
    for kind in (PytorchPlugin, TensorflowPlugin, JaxPlugin, HuggingfacePlugin)
}

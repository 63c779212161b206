"""Recognizes model files by name: their kinds, and the epoch of a checkpoint."""

import re
from collections.abc import Collection

from stoker_tuning.vocabulary import ModelFileKind

_MODEL_KEYS = {"state_dict", "model_state_dict", "model", "model_state", "module", "params", "ema", "network"}
_OPTIMIZER_KEYS = {
    "optimizer",
    "optimizer_state_dict",
    "optimizer_states",
    "optimizer_state",
    "opt_state",
    "lr_schedulers",
}
_PROGRESS_KEYS = {"epoch", "global_step", "step", "iteration", "iter_num", "best_acc1"}
_OPTIMIZER_TENSORS = ("exp_avg", "exp_avg_sq", "momentum_buffer", "optimizer.", "opt_state.", "square_avg")
_TENSORS = (".weight", ".bias", ".running_mean", ".gamma", ".beta", "/kernel", ".scales", ".embedding")


def kind_by_keys(keys: Collection[str]) -> ModelFileKind:
    """Return the kind by the keys of a file, in their order; Unknown without keys of a model."""
    known = set(keys)
    model = bool(known & _MODEL_KEYS)
    state = bool(known & _OPTIMIZER_KEYS) or any(key.startswith(_OPTIMIZER_TENSORS) for key in known)
    tensors = any(key.endswith(_TENSORS) for key in known)
    if {"state", "param_groups"} <= known and not (known & _OPTIMIZER_KEYS or tensors):
        return ModelFileKind.OPTIMIZER
    if (model or tensors) and (known & _OPTIMIZER_KEYS or known & _PROGRESS_KEYS):
        return ModelFileKind.CHECKPOINT
    if state and not tensors:
        return ModelFileKind.OPTIMIZER
    if state:
        return ModelFileKind.CHECKPOINT
    return ModelFileKind.WEIGHTS if model or tensors else ModelFileKind.UNKNOWN


_LONGEST = 4096  # characters of a path: no kernel takes more
# Extensions of models only.
_MODELS = {".safetensors", ".gguf", ".ggml", ".onnx", ".tflite", ".keras", ".mlmodel", ".engine"}
# Common extensions that no model has.
_DATA = {
    ".jpg",
    ".jpeg",
    ".png",
    ".webp",
    ".ppm",
    ".flac",
    ".wav",
    ".mp3",
    ".mp4",
    ".parquet",
    ".arrow",
    ".csv",
    ".npy",
}
# Extensions of models and of data: a word in the name decides.
_EITHER = {".pt", ".pth", ".bin", ".ckpt", ".pkl", ".pickle", ".h5", ".hdf5", ".msgpack", ".npz", ".pb", ".tar", ""}
_ARCHITECTURE = {
    "config.json",
    "model_config.json",
    "adapter_config.json",
    "config.yaml",
    "hparams.yaml",
    "saved_model.pb",
    "model.json",
    "architecture.json",
    "graph.pbtxt",
    "modules.json",
}
_METADATA = {
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "spiece.model",
    "tokenizer.model",
    "sentencepiece.bpe.model",
    "preprocessor_config.json",
    "processor_config.json",
    "trainer_state.json",
    "training_args.bin",
    "rng_state.pth",
    "fingerprint.pb",
    "keras_metadata.pb",
    "manifest.ocdbt",
    "_metadata",
    "_checkpoint_metadata",
    "_sharding",
}
_OPTIMIZER = re.compile(r"(?:^|[^a-z])(?:optim|optimizer|optim_states|opt_state|scheduler|scaler)(?![a-z])")
_CHECKPOINT = re.compile(r"(?:^|[^a-z])(?:ckpt|checkpoint|epoch|step|last|snapshot)(?![a-z])")
_WEIGHTS = re.compile(
    r"(?:^|[^a-z])(?:model|weights?|pytorch_model|adapter_model|params|state_dict|best|lora)(?![a-z])"
)
# TensorFlow's pairs: variables.data-00000-of-00001 and variables.index.
_TENSORFLOW = re.compile(r"(?P<stem>.{1,200})\.(?:data-\d{5}-of-\d{5}|index)")
_EPOCH = re.compile(r"(?:^|[^a-z])epoch[=_\-]?(\d{1,9})(?!\d)")
_STEP = re.compile(r"(?:^|[^a-z])(?:checkpoint|ckpt|step)[=_\-]?(\d{1,9})(?!\d)")


def kind_by_name(path: str) -> ModelFileKind:
    """Return the kind by the path alone; Unknown if the file may be data."""
    name = path[-_LONGEST:].rpartition("/")[2].lower()
    suffix = name[name.rfind(".") :] if "." in name[1:] else ""
    if suffix in _DATA:
        return ModelFileKind.UNKNOWN
    if name in _ARCHITECTURE:
        return ModelFileKind.ARCHITECTURE
    if name in _METADATA or name.endswith((".safetensors.index.json", ".bin.index.json")):
        return ModelFileKind.METADATA
    pair = _TENSORFLOW.fullmatch(name)
    if pair:
        return _by_words(pair["stem"]) or ModelFileKind.WEIGHTS if ".data-" in name else ModelFileKind.METADATA
    if suffix in _MODELS:
        return _by_words(name) or ModelFileKind.WEIGHTS
    either = suffix in _EITHER or suffix[1:].isdigit()
    return (_by_words(name) if either else None) or ModelFileKind.UNKNOWN


def _by_words(name: str) -> ModelFileKind | None:
    if _OPTIMIZER.search(name):
        return ModelFileKind.OPTIMIZER
    if _CHECKPOINT.search(name):
        return ModelFileKind.CHECKPOINT
    return ModelFileKind.WEIGHTS if _WEIGHTS.search(name) else None


def epoch_in_name(path: str) -> int | None:
    """Return the epoch in a checkpoint's path, else its step (as in ``checkpoint-500``); None for neither."""
    words = path[-_LONGEST:].lower()
    for expression in (_EPOCH, _STEP):
        found = expression.findall(words)
        if found:
            return int(found[-1])
    return None

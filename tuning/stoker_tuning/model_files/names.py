"""Model files by name: kinds that names tell, and the epoch of a checkpoint."""

import re

from stoker_tuning.vocabulary import ModelFileKind

_LONGEST = 4096  # characters of a path: more no kernel takes
# Extensions that nothing but models has.
_MODELS = {".safetensors", ".gguf", ".ggml", ".onnx", ".tflite", ".keras", ".mlmodel", ".engine"}
# Extensions that no model has, and that most files have.
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
# Extensions of models that data has too: a word in the name decides.
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
    """Tell the kind from a path alone; Unknown for what may as well be data."""
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
    """Return the epoch that a checkpoint's path names, else its step (as in ``checkpoint-500``); None: neither."""
    words = path[-_LONGEST:].lower()
    for expression in (_EPOCH, _STEP):
        found = expression.findall(words)
        if found:
            return int(found[-1])
    return None

"""Kinds by the names of what a file holds: tensors of a model, or the state of an optimizer beside them."""

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
    """Tell the kind from the keys of a file in their order; Unknown when none of them is of a model."""
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

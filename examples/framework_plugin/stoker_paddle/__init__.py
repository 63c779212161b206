"""PaddlePaddle for Stoker: its files, its settings of a container, and rules for its shards and checkpoints."""

from collections.abc import Mapping, Sequence
from typing import Any

_MODELS = (".pdparams", ".pdopt", ".pdmodel", ".pdiparams")
_KINDS = {".pdparams": "Weights", ".pdiparams": "Weights", ".pdopt": "Optimizer", ".pdmodel": "Architecture"}


class PaddlePlugin:
    """The plug-in interface: see docs/guides/plugins.md."""

    name = "paddle"

    def detect(self, path: str, head: bytes) -> float:
        if path.endswith(_MODELS):
            return 0.9
        if path.endswith(".py") and (b"import paddle" in head or b"from paddle" in head):
            return 0.9
        return 0.0

    def model_kind(self, path: str, head: bytes) -> str:
        return next((kind for ending, kind in _KINDS.items() if path.endswith(ending)), "")

    def hints(self, context: Mapping[str, Any]) -> Mapping[str, float]:
        size = context["environment"].get("FLAGS_batch_size", "")
        return {"batch_size": int(size)} if size.isdecimal() else {}

    def default_rules(self) -> Sequence[Mapping[str, Any]]:
        return [
            {
                "id": "paddle-checkpoints",
                "description": "A checkpoint is read whole, and by every rank.",
                "conditions": [{"type": "file_pattern", "value": list(_MODELS)}],
                "actions": [{"type": "prefetch", "parameters": {"prefetch_size": "64Mi"}}],
            }
        ]

    def default_templates(self) -> Sequence[Mapping[str, Any]]:
        return []

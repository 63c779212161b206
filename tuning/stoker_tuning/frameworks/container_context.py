"""The part of a pod's container that plug-ins get: image, arguments and environment, bounded and unchanged. Pure."""

from collections.abc import Mapping
from typing import Any

_MOST_ITEMS = 256  # arguments, and variables
_MOST_TEXT = 1024  # characters of each
_GPUS = ("nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915", "google.com/tpu", "aws.amazon.com/neuron")


def container_context(pod: Any) -> dict[str, Any]:
    """Return ``image``, ``arguments`` and ``environment`` of a pod's main container: the first with GPUs, or the first.

    ``pod``: a manifest from any author; non-text values are left out. Values from Secrets and ConfigMaps are unknown.
    Never raises.
    """
    containers = [one for one in _items(_field(_field(pod, "spec"), "containers")) if isinstance(one, Mapping)]
    main = next((one for one in containers if _has_gpus(one)), containers[0] if containers else {})
    arguments = [*_items(main.get("command")), *_items(main.get("args"))]
    variables = [one for one in _items(main.get("env")) if isinstance(one, Mapping)]
    return {
        "image": _text(main.get("image")),
        "arguments": [_text(one) for one in arguments if isinstance(one, str)][:_MOST_ITEMS],
        "environment": {
            _text(one.get("name")): _text(one["value"]) for one in variables if isinstance(one.get("value"), str)
        },
    }


def _has_gpus(container: Mapping[Any, Any]) -> bool:
    limits = _field(container.get("resources"), "limits")
    return isinstance(limits, Mapping) and any(name in limits for name in _GPUS)


def _field(found: Any, name: str) -> Any:
    return found.get(name) if isinstance(found, Mapping) else None


def _items(found: Any) -> list[Any]:
    return found[:_MOST_ITEMS] if isinstance(found, list) else []


def _text(found: Any) -> str:
    return found[:_MOST_TEXT] if isinstance(found, str) else ""

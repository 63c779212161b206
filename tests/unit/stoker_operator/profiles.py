"""Builders of TuningProfiles for tests."""

from typing import Any

from stoker_operator.core.classes.profiles import ProfileReader, ProfileView

GOOD: dict[str, Any] = {
    "rules": [{"id": "shards", "actions": [{"type": "prefetch", "parameters": {"prefetch_size": "8Mi"}}]}],
    "templates": [{"id": "mine", "rules": [{"id": "t", "actions": [{"type": "cache"}]}]}],
}
BAD: dict[str, Any] = {"rules": [{"id": "shards", "actions": [{"type": "prefech"}]}]}


def raw_profile(name: str = "fast", spec: Any = None, generation: int = 1, **status: Any) -> dict[str, Any]:
    """Make a TuningProfile as in the API server."""
    metadata = {"name": name, "uid": f"uid-{name}", "generation": generation, "resourceVersion": str(generation)}
    return {"metadata": metadata, "spec": GOOD if spec is None else spec, "status": status}


def profile(name: str = "fast", spec: Any = None, generation: int = 1, **status: Any) -> ProfileView:
    """Make the view of a TuningProfile."""
    return ProfileReader().view(raw_profile(name, spec, generation, **status))

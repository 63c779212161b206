"""Where `stoker mount` keeps what other programs look for. Pure, and without models: unmounting waits for no import."""

import tempfile
from collections.abc import Mapping
from pathlib import Path

# Beside each other in the folder of one mount, below ``default_runs``.
FIGURES_SOCKET = "figures.sock"
MOUNT_SPEC = "spec.json"


def default_runs(environment: Mapping[str, str], uid: int) -> Path:
    """Return the folder of all mounts of this user; gone after a reboot, as the mounts are."""
    if uid == 0:
        return Path("/run/stoker-mounts")
    base = environment.get("XDG_RUNTIME_DIR")
    return Path(base) / "stoker-mounts" if base else Path(tempfile.gettempdir()) / f"stoker-mounts-{uid}"

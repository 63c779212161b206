"""Where `stoker mount` keeps its sockets and specs. Pure, and without models, so that unmounting imports little."""

import tempfile
from collections.abc import Mapping
from pathlib import Path

# Both are in the folder of one mount, below ``default_runs``.
FIGURES_SOCKET = "figures.sock"
MOUNT_SPEC = "spec.json"


def default_runs(environment: Mapping[str, str], uid: int) -> Path:
    """Return the folder of all mounts of this user. A reboot removes it together with the mounts."""
    if uid == 0:
        return Path("/run/stoker-mounts")
    base = environment.get("XDG_RUNTIME_DIR")
    return Path(base) / "stoker-mounts" if base else Path(tempfile.gettempdir()) / f"stoker-mounts-{uid}"

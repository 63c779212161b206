"""What `stoker mount` says of a mount on one machine, and where: what its agent serves and the CLI reads. Pure."""

import tempfile
from collections.abc import Mapping
from pathlib import Path

from stoker_api.meta import Model
from stoker_api.node_hardware import NodeHardware
from stoker_api.node_workload import NodeWorkload

# Beside each other in the folder of one mount, below ``default_runs``.
FIGURES_SOCKET = "figures.sock"
MOUNT_SPEC = "spec.json"
# Bytes of a question, and of an answer; rows of history in one.
MOST_ASKED, MOST_TOLD = 4096, 4 * 1024 * 1024
MOST_HISTORY = 1000


class MountFigures(Model):
    """What is seen of a mount. ``workloads``: who reads it; ``unseen``: why nobody looks, a sentence, or empty.

    ``tuning``: file of the rules in force; empty: the built-in ones.
    """

    folder: str
    workloads: tuple[NodeWorkload, ...] = ()
    unseen: str = ""
    tuning: str = ""
    hardware: NodeHardware = NodeHardware()


def default_runs(environment: Mapping[str, str], uid: int) -> Path:
    """Return the folder of all mounts of this user; gone after a reboot, as the mounts are."""
    if uid == 0:
        return Path("/run/stoker-mounts")
    base = environment.get("XDG_RUNTIME_DIR")
    return Path(base) / "stoker-mounts" if base else Path(tempfile.gettempdir()) / f"stoker-mounts-{uid}"

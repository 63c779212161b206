"""What `stoker mount` says of a mount on one machine: what its agent serves and the CLI reads. Pure."""

from stoker_api.meta import Model
from stoker_api.node_hardware import NodeHardware
from stoker_api.node_workload import NodeWorkload

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

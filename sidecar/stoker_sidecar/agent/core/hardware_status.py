"""The machine as its NodeCache shows it. Pure."""

from stoker_api.node_hardware import MOST_DISKS, NodeDisk, NodeHardware
from stoker_sidecar.linux.hardware import Machine


def node_hardware(machine: Machine) -> NodeHardware:
    """Return what a NodeCache says of a machine."""
    return NodeHardware(
        memory_bytes=machine.memory,
        cpus=machine.cpus,
        gpus=machine.gpus,
        network_bytes_per_second=machine.network,
        disks=tuple(NodeDisk(path=path, kind=kind) for path, kind in machine.disks[:MOST_DISKS]),
    )

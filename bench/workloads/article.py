"""The experiment at the origin of Stoker, on a small scale: accelerators with a distant store, s3fs and rclone."""

from collections.abc import Iterator
from pathlib import Path

from bench.environment import Environment
from bench.node import Node, Volume
from bench.report import Row
from bench.sampled import epoch_order, sampling
from bench.systems import ORDER_KNOWN
from bench.trainer import LOADERS
from bench.workloads.gpus import SimulatedTraining, mount

_SEED = 7


def measure(env: Environment) -> Iterator[Row]:
    """Yield rows for each number of accelerators, file system and epoch."""
    scale = env.scale.article

    def mount_known(node: Node, volume: Volume, count: int) -> Path:
        """Mount for a pod in which each accelerator is a rank."""
        node.offer(volume)
        return node.publish(volume, sampling(_SEED, LOADERS, batch=scale.batch, epochs=scale.epochs, ranks=count))

    orders = [epoch_order(scale.corpus, _SEED, epoch) for epoch in range(scale.epochs)]
    ways = {"Stoker, warm": _mount_warm, ORDER_KNOWN: mount_known, "Stoker, cold": mount}
    yield from SimulatedTraining(env, "article", scale, orders, ways).rows("P20")


def _mount_warm(node: Node, volume: Volume, _count: int) -> Path:
    node.warm(volume)
    return node.publish(volume)

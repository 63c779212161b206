"""Training simulation: 1, 4 and 8 accelerators with a fixed step time over Stoker, s3fs, rclone and the bare disk."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.environment import Environment
from bench.measure import drop_page_cache
from bench.node import Node, Volume
from bench.peer_mounts import PEERS, installed, peer_mount
from bench.report import Row
from bench.scale import Gpus
from bench.systems import NATIVE
from bench.trainer import IMAGES_A_BATCH, STEP_SECONDS, shares, train
from bench.workloads.epochs import new_orders


def measure(env: Environment) -> Iterator[Row]:
    """Yield rows for each number of accelerators, epoch and file system."""
    orders = new_orders(env.scale.gpus.corpus)
    epochs = [next(orders) for _ in range(env.scale.gpus.epochs)]
    ways = {"Stoker, warming up meanwhile": _mount_eager, "Stoker, on demand": mount}
    yield from SimulatedTraining(env, "gpus", env.scale.gpus, epochs, ways).rows("P0")


def mount(node: Node, volume: Volume, _count: int) -> Path:
    """Mount a dataset whose files are fetched on read."""
    node.offer(volume)
    return node.publish(volume)


def _mount_eager(node: Node, volume: Volume, _count: int) -> Path:
    node.offer(volume, eager=True)
    return node.publish(volume)


@dataclass(frozen=True)
class SimulatedTraining:
    """Accelerators that are fed by a plain copy, by Stoker, and by other programs.

    ``orders`` has the order of the images by epoch. ``ways`` has Stoker's mount function for a number of accelerators,
    by system.
    """

    env: Environment
    workload: str
    gpus: Gpus
    orders: Sequence[Sequence[str]]
    ways: Mapping[str, Callable[[Node, Volume, int], Path]]

    def rows(self, profile: str) -> Iterator[Row]:
        """Yield a row for each number of accelerators, system and epoch."""
        env, missing = self.env, [peer for peer in PEERS if not installed(peer)]
        if missing:
            env.say(f"{self.workload}: not measured: {', '.join(missing)}; apt-get install s3fs rclone brings them")
        corpus = env.corpus(self.workload, self.gpus.corpus)
        with corpus as prefix, env.native(prefix) as native, env.profile(profile) as endpoint:
            for count in self.gpus.counts:
                for system in (NATIVE, *self.ways, *(peer for peer in PEERS if peer not in missing)):
                    with self._mounted(system, prefix, endpoint, native, count) as root:
                        yield from self._epochs(system, root, count)

    @contextmanager
    def _mounted(self, system: str, prefix: str, endpoint: str, native: Path, count: int) -> Iterator[Path]:
        """Mount the data in one way, from a cold start."""
        env = self.env
        with ExitStack() as stack:
            if system == NATIVE:
                yield native
            elif system in PEERS:
                yield stack.enter_context(peer_mount(system, env.server, prefix, env.scratch / "peer", endpoint))
            else:
                node = stack.enter_context(env.node(endpoint))
                yield self.ways[system](node, node.list_source(prefix), count)

    def _epochs(self, system: str, root: Path, count: int) -> Iterator[Row]:
        step = STEP_SECONDS * self.gpus.batch / IMAGES_A_BATCH
        for epoch, order in enumerate(self.orders, 1):
            case = case_of(count, epoch)
            self.env.say(f"{self.workload}: {system}, {case}")
            drop_page_cache()
            training = train(root, shares(order, count), self.gpus.batch, step)
            note = f"accelerators {100 * training.utilisation:.0f} % busy"
            yield Row(self.workload, case, system, "images/s", (training.rate,), NATIVE, note)


def case_of(count: int, epoch: int) -> str:
    """Return a case's name. The plot parses the numbers in it. Pure."""
    return f"{count} GPU{'s' if count > 1 else ''}, epoch {epoch}"

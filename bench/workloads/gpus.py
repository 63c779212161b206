"""Training simulated: 1, 4 and 8 accelerators with a fixed step time over Stoker, s3fs, rclone and the bare disk."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench.environment import Environment
from bench.measure import drop_page_cache
from bench.peer_mounts import PEERS, installed, peer_mount
from bench.report import Row
from bench.systems import NATIVE
from bench.trainer import IMAGES_A_BATCH, STEP_SECONDS, shares, train
from bench.workloads.epochs import Orders

WARMING, ON_DEMAND = "Stoker, warming up meanwhile", "Stoker, on demand"


def measure(env: Environment) -> Iterator[Row]:
    """Yield rows for each number of accelerators, epoch and file system."""
    gpus = env.scale.gpus
    missing = [peer for peer in PEERS if not installed(peer)]
    if missing:
        env.say(f"gpus: not measured: {', '.join(missing)}; apt-get install s3fs rclone brings them")
    systems = [NATIVE, WARMING, ON_DEMAND, *(peer for peer in PEERS if peer not in missing)]
    with env.corpus("gpus", gpus.corpus) as prefix, env.native(prefix) as native:
        for count in gpus.counts:
            for system in systems:
                with _mounted(env, system, prefix, native) as root:
                    yield from _epochs(env, system, root, count)


@contextmanager
def _mounted(env: Environment, system: str, prefix: str, native: Path) -> Iterator[Path]:
    """Mount the data in one way, from a cold start."""
    with ExitStack() as stack:
        if system == NATIVE:
            yield native
        elif system in PEERS:
            yield stack.enter_context(peer_mount(system, env.server, prefix, env.scratch / "peer"))
        else:
            node = stack.enter_context(env.node())
            volume = node.list_source(prefix)
            node.offer(volume, eager=system == WARMING)
            yield node.publish(volume)


def _epochs(env: Environment, system: str, root: Path, count: int) -> Iterator[Row]:
    gpus = env.scale.gpus
    orders = Orders(gpus.corpus)
    step = STEP_SECONDS * gpus.batch / IMAGES_A_BATCH
    for epoch in range(1, gpus.epochs + 1):
        env.say(f"gpus: {system}, {case_of(count, epoch)}")
        drop_page_cache()
        training = train(root, shares(orders.next(), count), gpus.batch, step)
        note = f"accelerators {100 * training.utilisation:.0f} % busy"
        yield Row("gpus", case_of(count, epoch), system, "images/s", (training.rate,), NATIVE, note)


def case_of(count: int, epoch: int) -> str:
    """Return a case's name; the plot finds its numbers in it. Pure."""
    return f"{count} GPU{'s' if count > 1 else ''}, epoch {epoch}"

"""Training simulated: 1, 4 and 8 accelerators with a fixed step time over Stoker, s3fs, rclone and the bare disk."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench.bed import Bed
from bench.measure import drop_page_cache
from bench.peer_mounts import PEERS, installed, peer_mount
from bench.report import Row
from bench.subjects import NATIVE
from bench.trainer import IMAGES_A_BATCH, STEP_SECONDS, shares, train
from bench.workloads.epochs import Orders

WARMING, ON_DEMAND = "Stoker, warming up meanwhile", "Stoker, on demand"


def measure(bed: Bed) -> Iterator[Row]:
    """Rows for each number of accelerators, epoch and file system."""
    gpus = bed.scale.gpus
    missing = [peer for peer in PEERS if not installed(peer)]
    if missing:
        bed.say(f"gpus: not measured: {', '.join(missing)}; apt-get install s3fs rclone brings them")
    subjects = [NATIVE, WARMING, ON_DEMAND, *(peer for peer in PEERS if peer not in missing)]
    with bed.corpus("gpus", gpus.corpus) as prefix, bed.native(prefix) as native:
        for count in gpus.counts:
            for subject in subjects:
                with _mounted(bed, subject, prefix, native) as root:
                    yield from _epochs(bed, subject, root, count)


@contextmanager
def _mounted(bed: Bed, subject: str, prefix: str, native: Path) -> Iterator[Path]:
    """The data in one way, from a cold start."""
    with ExitStack() as stack:
        if subject == NATIVE:
            yield native
        elif subject in PEERS:
            yield stack.enter_context(peer_mount(subject, bed.server, prefix, bed.scratch / "peer"))
        else:
            node = stack.enter_context(bed.node())
            volume = node.list_source(prefix)
            node.offer(volume, eager=subject == WARMING)
            yield node.publish(volume)


def _epochs(bed: Bed, subject: str, root: Path, count: int) -> Iterator[Row]:
    gpus = bed.scale.gpus
    orders = Orders(gpus.corpus)
    step = STEP_SECONDS * gpus.batch / IMAGES_A_BATCH
    for epoch in range(1, gpus.epochs + 1):
        bed.say(f"gpus: {subject}, {case_of(count, epoch)}")
        drop_page_cache()
        training = train(root, shares(orders.next(), count), gpus.batch, step)
        note = f"accelerators {100 * training.utilisation:.0f} % busy"
        yield Row("gpus", case_of(count, epoch), subject, "images/s", (training.rate,), NATIVE, note)


def case_of(count: int, epoch: int) -> str:
    """A case's name; the plot finds its numbers in it. Pure."""
    return f"{count} GPU{'s' if count > 1 else ''}, epoch {epoch}"

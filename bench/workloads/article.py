"""The experiment that Stoker began with, in small: accelerators fed from a distant store, beside s3fs and rclone."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench.environment import Environment
from bench.measure import drop_page_cache
from bench.objects import paths
from bench.peer_mounts import PEERS, installed, peer_mount
from bench.report import Row
from bench.systems import NATIVE, ORDER_KNOWN
from bench.trainer import IMAGES_A_BATCH, LOADERS, STEP_SECONDS, shares, train
from bench.workloads.gpus import case_of
from stoker_api.sampling import SampleFilesSpec, Sampling
from stoker_orders.predictors.samplers import SAMPLERS, SamplerName
from stoker_orders.sampling_plan import SampleLayout

COLD, WARM = "Stoker, cold", "Stoker, warm"
_PROFILE, _SEED = "P20", 7


def measure(env: Environment) -> Iterator[Row]:
    """Yield rows for each number of accelerators, file system and epoch."""
    scale = env.scale.article
    missing = [peer for peer in PEERS if not installed(peer)]
    if missing:
        env.say(f"article: not measured: {', '.join(missing)}; apt-get install s3fs rclone brings them")
    systems = [NATIVE, WARM, ORDER_KNOWN, COLD, *(peer for peer in PEERS if peer not in missing)]
    with env.corpus("article", scale.corpus) as prefix, env.native(prefix) as native, env.profile(_PROFILE) as endpoint:
        files = sorted(paths(scale.corpus))
        for count in scale.counts:
            for system in systems:
                with _mounted(env, system, prefix, native, endpoint, count) as root:
                    yield from _epochs(env, system, root, files, count)


@contextmanager
def _mounted(env: Environment, system: str, prefix: str, native: Path, endpoint: str, count: int) -> Iterator[Path]:
    """Mount the data in one way: with nothing here, but for the warm ones."""
    with ExitStack() as stack:
        if system == NATIVE:
            yield native
        elif system in PEERS:
            yield stack.enter_context(peer_mount(system, env.server, prefix, env.scratch / "peer", endpoint))
        else:
            node = stack.enter_context(env.node(endpoint))
            volume = node.list_source(prefix)
            if system == WARM:
                node.warm(volume)
            else:
                node.offer(volume)
            yield node.publish(volume, _sampling(env, count) if system == ORDER_KNOWN else "")


def _sampling(env: Environment, count: int) -> str:
    """Say how the accelerators read, each being a rank of one pod."""
    scale, files = env.scale.article, SampleFilesSpec(layout=SampleLayout.SHARDS)  # all files, by name
    ranks = {"ranks": count, "ranks_per_pod": count}
    said = Sampling(seed=_SEED, batch=scale.batch, loaders=LOADERS, epochs=scale.epochs, files=files, **ranks)
    return said.text()


def _epochs(env: Environment, system: str, root: Path, files: Sequence[str], count: int) -> Iterator[Row]:
    scale = env.scale.article
    step = STEP_SECONDS * scale.batch / IMAGES_A_BATCH
    for epoch in range(scale.epochs):
        env.say(f"article: {system}, {case_of(count, epoch + 1)}")
        order = [files[one] for one in SAMPLERS[SamplerName.TORCH_DISTRIBUTED].order(len(files), _SEED + epoch, epoch)]
        drop_page_cache()
        training = train(root, shares(order, count), scale.batch, step)
        note = f"accelerators {100 * training.utilisation:.0f} % busy"
        yield Row("article", case_of(count, epoch + 1), system, "images/s", (training.rate,), NATIVE, note)

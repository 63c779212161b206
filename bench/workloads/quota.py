"""Epochs of a distributed sampler over a dataset larger than its quota, with a known and an unknown order."""

from collections.abc import Iterator

from bench.environment import Environment
from bench.measure import drop_page_cache
from bench.readers import read_jobs
from bench.report import Cost, Row
from bench.sidecar import Switches
from bench.systems import ORDER_KNOWN, STOKER, new_mount
from bench.workloads.orders import epoch_jobs, said

_PROFILE, _EPOCHS = "P20", 3
_QUOTAS = {"a third": 1 / 3, "a tenth": 1 / 10}
# Uncached files in memory, as a share of the data: the default of 256 MiB for 2 GB. More would be a second cache.
_READ_THROUGH = 1 / 8


def measure(env: Environment) -> Iterator[Row]:
    """Yield rows for each quota: rates of the first epoch and of later ones, and the fetches of each."""
    with env.corpus("quota", env.scale.epochs) as prefix, env.profile(_PROFILE) as endpoint:
        for name, quota in _QUOTAS.items():
            yield from _epochs(env, prefix, endpoint, name, quota)


def _epochs(env: Environment, prefix: str, endpoint: str, name: str, quota: float) -> Iterator[Row]:
    corpus, systems = env.scale.epochs, {STOKER: "", ORDER_KNOWN: said()}
    switches = Switches(read_through=round(corpus.total_bytes * _READ_THROUGH))
    rates: dict[tuple[str, bool], list[float]] = {}
    costs: dict[tuple[str, bool], list[Cost]] = {}
    for system in env.turns(f"quota: {name} of the data", systems):
        with env.node(endpoint, switches) as node:
            root = new_mount(node, prefix, systems[system], quota=round(corpus.total_bytes * quota))
            for epoch in range(_EPOCHS):
                drop_page_cache()  # otherwise the kernel caches files beyond the quota
                with env.meter(node) as meter:
                    read = read_jobs(root, epoch_jobs(corpus, epoch), corpus.total_bytes)
                rates.setdefault((system, epoch > 0), []).append(read.rate)
                costs.setdefault((system, epoch > 0), []).append(meter.cost)
    for (system, later), found in rates.items():
        case = f"quota of {name} of the data, {_PROFILE}, {'epochs 2 and 3' if later else 'epoch 1'}"
        spent = costs[system, later]
        yield Row("quota", case, system, "files/s", tuple(found), STOKER, "", tuple(spent))
        fetched = tuple(100 * cost.gets / corpus.files for cost in spent)
        yield Row("quota", case, system, "% of the files fetched", fetched)

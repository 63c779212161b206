"""The control plane by the size of the cluster. Only nodes, which kwok simulates, and their sidecars are not real."""

import asyncio
from collections.abc import Iterator, Sequence

from bench.environment import Environment
from bench.errors import BenchError
from bench.growth import GROWING, curves_by_size, fit
from bench.report import Row
from bench.simulation.cluster import SimulatedCluster
from bench.simulation.measurement import WORKLOAD, Measurement
from bench.simulation.operator_process import OperatorProcess
from bench.simulation.playing import Player
from bench.simulation.sightings import Sightings
from e2e.cluster.errors import HarnessError
from stoker_kube.client import KubeClient


def measure(env: Environment) -> Iterator[Row]:
    """Yield the rows of each size, and the exponents over all sizes."""
    rows = asyncio.run(_measured(env))
    yield from rows
    yield from exponents(rows)


async def _measured(env: Environment) -> list[Row]:
    plane = env.scale.plane
    with SimulatedCluster(env.say) as cluster, Player(cluster, plane.warming) as player:
        operator = OperatorProcess(cluster)
        operator.start()
        async with await KubeClient.connect(cluster.kubeconfig) as kube:
            seen = Sightings(kube)
            watching = asyncio.create_task(seen.run())
            measurement = Measurement(cluster, player, operator, kube, seen, plane, env.say, env.keep)
            rows = await _sizes(measurement, plane.sizes, env)
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
    return rows


async def _sizes(measurement: Measurement, sizes: Sequence[int], env: Environment) -> list[Row]:
    """Return the rows of all sizes. A size that is too large for the machine ends the run, and earlier rows stay."""
    for size in sizes:
        try:
            await measurement.size(size)
        except (BenchError, HarnessError) as error:
            if not measurement.rows:
                raise
            env.say(f"{size:,} nodes were not measured to the end, and no more of them at all: {error}")
            break
    return measurement.rows


def exponents(rows: Sequence[Row]) -> Iterator[Row]:
    """Yield the growth of figures with the number of nodes, if there are several sizes. Pure."""
    for figure, points in curves_by_size(rows, GROWING).items():
        law = fit(points)
        if law is not None:
            sizes = ", ".join(f"{size:,}" for size in points)
            note = f"0: the same at any size, 1: in proportion; over {sizes} nodes"
            yield Row(WORKLOAD, "all sizes", figure, "exponent of the nodes", (law.exponent,), note=note)

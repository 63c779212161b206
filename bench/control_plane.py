"""What the pass over Datasets costs by the size of the cluster: of everything anew, and of one change.

The product's own pass (``DatasetReconciler``) runs over its own mirror. The API server is played by a writer that takes
everything and answers at once, so the figures are of decisions alone and not of a cluster.
"""

import asyncio
import json
import math
import resource
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.led_cluster import LedCluster
from stoker_operator import garbage

CLUSTERS = (100, 500, 1000, 2500, 5000)  # nodes
DATASETS = 1000  # with three replicas
EVERYWHERE = 20  # Datasets on all nodes
CHANGES = 20  # of each kind: the median counts
_LOOK = 0.0005  # seconds between two looks at whether the event loop turns


@dataclass(frozen=True)
class PassCost:
    """Seconds of the pass over Datasets in a cluster of so many nodes, and what the process holds at its end."""

    nodes: int
    datasets: int
    everywhere: int
    start: float  # CPU of the first pass of a new leader, when all is well
    start_blocked: float  # the longest time for which it kept the event loop
    idle: float  # a pass with nothing new
    change: float  # a pass after one NodeCache said something else of a Dataset with three replicas
    change_everywhere: float  # the same of a Dataset on all nodes
    pod: float  # after a pod came
    dataset: float  # after a Dataset's spec changed
    change_blocked: float  # the longest time for which any of those kept the event loop
    resident: int  # bytes


def measure_clusters(sizes: Sequence[int], datasets: int, everywhere: int) -> list[PassCost]:
    """Measure clusters of so many nodes.

    Each is planned in one process and led in another, lest the memory of making it count.
    """
    with ProcessPoolExecutor(1, mp_context=get_context("spawn"), max_tasks_per_child=1) as processes:
        return [_measured_one(processes, (nodes, datasets, everywhere)) for nodes in sizes]


def _measured_one(processes: Executor, size: tuple[int, int, int]) -> PassCost:
    with TemporaryDirectory() as folder:
        processes.submit(_plan_all, size, Path(folder) / "cluster").result()
        return processes.submit(_lead_all, size, Path(folder) / "cluster").result()


def _plan_all(size: tuple[int, int, int], saved: Path) -> None:
    cluster = LedCluster(*size)
    cluster.make()
    asyncio.run(cluster.settle())
    cluster.save(saved)


def _lead_all(size: tuple[int, int, int], saved: Path) -> PassCost:
    cluster = LedCluster(*size)
    garbage.begin()
    cluster.load(saved)
    return asyncio.run(_measure(cluster))


def show_clusters(costs: Sequence[PassCost], result: Path) -> str:
    """Write the figures as JSON, and return them as a table, with the exponents by which they grow with the nodes."""
    result.parent.mkdir(parents=True, exist_ok=True)
    result.write_text(json.dumps([asdict(cost) for cost in costs], indent=1))
    parts = ("start", "start_blocked", "idle", "change", "change_everywhere", "pod", "dataset", "change_blocked")
    rows = [("nodes", *(part.replace("_", " ") for part in parts), "resident")]
    for cost in costs:
        rows.append(
            (
                f"{cost.nodes:,}",
                *(f"{1000 * getattr(cost, part):,.1f} ms" for part in parts),
                f"{cost.resident >> 20} MiB",
            )
        )
    if len(costs) > 1:
        rows.append(("exponent", *(f"{_exponent(costs, part):.2f}" for part in parts), ""))
    return "\n".join("  ".join(f"{cell:>18}" for cell in row) for row in rows)


def _exponent(costs: Sequence[PassCost], part: str) -> float:
    """Return the slope of a line through the logarithms, by least squares."""
    points = [(math.log(cost.nodes), math.log(max(getattr(cost, part), 1e-6))) for cost in costs]
    mean_x, mean_y = (sum(one[axis] for one in points) / len(points) for axis in (0, 1))
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / sum((x - mean_x) ** 2 for x, _ in points)


async def _measure(cluster: LedCluster) -> PassCost:
    garbage.set_aside()
    start, start_blocked = await _measured(cluster.reconciler.reconcile)
    await cluster.step()
    garbage.set_aside()
    spent: dict[str, list[float]] = {}
    blocked = 0.0
    for number in range(CHANGES):
        for part, change in cluster.changes(number):
            await cluster.step()
            change()
            seconds, longest = await _measured(cluster.reconciler.reconcile)
            await cluster.reconciler.work.settled()
            spent.setdefault(part, []).append(seconds)
            blocked = max(blocked, longest)
    medians = {part: sorted(found)[len(found) // 2] for part, found in spent.items()}
    return PassCost(
        nodes=len(cluster.nodes),
        datasets=len(cluster.few),
        everywhere=len(cluster.all),
        start=start,
        start_blocked=start_blocked,
        idle=medians["idle"],
        change=medians["change"],
        change_everywhere=medians["change_everywhere"],
        pod=medians["pod"],
        dataset=medians["dataset"],
        change_blocked=blocked,
        resident=_resident(),
    )


async def _measured(work: Callable[[], Awaitable[object]]) -> tuple[float, float]:
    """Return CPU seconds, and the most of them that were spent before anybody else had a turn."""
    longest, over = 0.0, asyncio.Event()

    async def watch() -> None:
        nonlocal longest
        while not over.is_set():
            last = time.thread_time()
            await asyncio.sleep(_LOOK)
            longest = max(longest, time.thread_time() - last)

    watching = asyncio.create_task(watch())
    await asyncio.sleep(0)
    began = time.thread_time()
    await work()
    spent = time.thread_time() - began
    over.set()
    await watching
    return spent, longest


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()

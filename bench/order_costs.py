"""What it costs to know an order: seconds and memory of an epoch's order, and of where each sample has its place.

Each figure is taken in a process of its own. The bar is for 1.3 million samples.
"""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from stoker_orders.predictors.samplers import SamplerName

ORDER_SAMPLES = (1_300_000, 2_000_000)
MOST_SECONDS, MOST_MB = 2.0, 64.0
_PROGRAM = """
import re, sys, time
from fractions import Fraction
from pathlib import Path
from stoker_orders.job_order import EpochOrder, JobOrder
from stoker_orders.predictors.samplers import SamplerName
from stoker_orders.sample_map import FileMap
from stoker_orders.sampling_plan import SamplingPlan
plan = SamplingPlan(SamplerName(sys.argv[1]), seed=3, group=16, ratio=Fraction(1, 2))
order = JobOrder(plan, FileMap(range(2, 2 + int(sys.argv[2]))), (0,))
memory = lambda field: int(re.search(field + r":\\s+([0-9]+)", Path("/proc/self/status").read_text())[1]) * 1024
Path("/proc/self/clear_refs").write_text("5")  # the peak begins here
before, began = memory("VmRSS"), time.perf_counter()
epoch = order.epoch(1)
seconds = time.perf_counter() - began
print(seconds, (memory("VmHWM") - before) / 1e6)
"""


# The example of an order plug-in: time with its process and the check; memory of its process, which ends.
_PLUGIN_PROGRAM = """
import resource, sys, time
from stoker_orders.job_order import JobOrder
from stoker_orders.predictors.samplers import sampler_named
from stoker_orders.sample_map import FileMap
from stoker_orders.sampling_plan import SamplingPlan
from stoker_plugins.discovery import InstalledPlugin
from stoker_plugins.orders import order_of
plan = SamplingPlan(sampler_named(sys.argv[1]), seed=3)
job = JobOrder(plan, FileMap(range(2, 2 + int(sys.argv[2]))), (0,))
plugin, began = InstalledPlugin(plan.plugin, "stoker_numpy_legacy:NumpyLegacyOrder", ""), time.perf_counter()
job.told(1, order_of(plugin, job.question(1)))
print(time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024 / 1e6)
"""
_PLUGIN, _EXAMPLE = "plugin:numpy-legacy", Path(__file__).resolve().parents[1] / "examples" / "order_plugin"


@dataclass(frozen=True)
class OrderCost:
    """Seconds, and MB of memory at most beside what the process had before."""

    sampler: str
    samples: int
    seconds: float
    megabytes: float


def measure_orders(samples: Sequence[int]) -> list[OrderCost]:
    """Measure each sampler, and the example of a plug-in, with so many samples, once."""
    return [_measured(sampler, count) for sampler in (*SamplerName, _PLUGIN) for count in samples]


def show_orders(costs: Sequence[OrderCost], result: Path) -> str:
    """Write the figures as JSON, and return them as a table."""
    result.parent.mkdir(parents=True, exist_ok=True)
    result.write_text(json.dumps([asdict(cost) for cost in costs], indent=1))
    lines = [f"{'sampler':<22}{'samples':>12}{'seconds':>10}{'MB':>8}  bar: {MOST_SECONDS:g} s, {MOST_MB:g} MB"]
    for cost in costs:
        met = "met" if cost.seconds <= MOST_SECONDS and cost.megabytes <= MOST_MB else "MISSED"
        verdict = met if cost.samples <= min(ORDER_SAMPLES) else ""
        lines.append(f"{cost.sampler:<22}{cost.samples:>12,}{cost.seconds:>10.2f}{cost.megabytes:>8.1f}  {verdict}")
    return "\n".join(lines)


def _measured(sampler: str, samples: int) -> OrderCost:
    program = _PLUGIN_PROGRAM if sampler == _PLUGIN else _PROGRAM
    run = subprocess.run(
        [sys.executable, "-c", program, sampler, str(samples)],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": str(_EXAMPLE)},
    )
    seconds, megabytes = map(float, run.stdout.split())
    return OrderCost(sampler, samples, seconds, megabytes)

"""Measures starts: a cluster is planned by one process, served by another, and led by a third one that starts cold."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.coldstart.objects import save_objects
from bench.coldstart.server import serve
from bench.coldstart.start import Start, start
from bench.errors import BenchError

_LEAST = 0.05  # CPU seconds of a part that is shown by itself
_CONTEXT = get_context("spawn")


def measure_start(nodes: int, datasets: int, everywhere: int) -> Start:
    """Measure one start in a cluster that is warm. Raises BenchError, also where the operator wrote anything."""
    with TemporaryDirectory() as folder:
        objects, kubeconfig = Path(folder) / "objects", Path(folder) / "kubeconfig"
        planning = _CONTEXT.Process(target=save_objects, args=(nodes, datasets, everywhere, objects))
        planning.start()
        planning.join()
        with _process(serve, objects, kubeconfig) as server:
            _received(server)
            with _process(start, kubeconfig) as leader:
                found: Start = _received(leader)
            server.send("end")
            if written := _received(server):
                raise BenchError(f"at rest there is nothing to write, and {len(written)} were tried: {written[0]}")
    return found


def show_start(found: Start, result: Path) -> str:
    """Write the figures as JSON, and return them as a table."""
    result.parent.mkdir(parents=True, exist_ok=True)
    result.write_text(json.dumps(asdict(found), indent=1))
    shown = sorted(((spent, name) for name, spent in found.parts.items() if spent >= _LEAST), reverse=True)
    rest = sum(found.parts.values()) - sum(spent for spent, _ in shown)
    rows = [("part", "CPU", "longest step")]
    for spent, name in [*shown, (rest, "all others")]:
        step = f"{1000 * found.steps[name]:.1f} ms" if name in found.steps else ""
        rows.append((name, f"{spent:.2f} s", step))
    rows += [(f"until {name}", f"{spent:.2f} s", "") for name, spent in found.at.items()]
    table = "\n".join(f"{name:>32}  {spent:>10}  {step:>14}" for name, spent, step in rows)
    return (
        f"{table}\n{found.seconds:.1f} s until it was quiet; longest turn of the loop {1000 * found.blocked:.1f} ms; "
        f"{found.peak >> 20} MiB of memory at most"
    )


@contextmanager
def _process(work: Callable[..., None], *arguments: Path) -> Iterator[Connection]:
    """Run ``work(pipe, *arguments)`` in a process of its own, until this is left."""
    here, there = _CONTEXT.Pipe()
    process = _CONTEXT.Process(target=work, args=(there, *arguments))
    process.start()
    there.close()  # so that its end is seen here
    try:
        yield here
    finally:
        process.terminate()
        process.join()


def _received(pipe: Connection) -> Any:
    try:
        return pipe.recv()
    except EOFError as error:
        raise BenchError("a process of the measurement has ended: what it said is above") from error

"""With `stoker mount --cpus`, fetching runs on these CPUs: the fetcher, the workers' zygote, and the workers."""

import os
from pathlib import Path

import pytest

from tests.support.stoker_mount import StokerMount
from tests.support.waiting import wait_until

pytestmark = pytest.mark.root
FILES = {f"set/{n}.bin": bytes([n]) * 100_000 for n in range(8)}
CPU = min(os.sched_getaffinity(0))
_PLACED = {"stoker-fetcher", "stoker-zygote", "stoker-worker"}


def _placed(stoker: StokerMount) -> dict[str, set[frozenset[int]]]:
    """Return the allowed CPUs of processes by name."""
    found: dict[str, set[frozenset[int]]] = {}
    for pid in stoker.processes():
        name = Path(f"/proc/{pid}/comm").read_text().strip()
        if name in _PLACED:
            found.setdefault(name, set()).add(frozenset(os.sched_getaffinity(pid)))
    return found


def test_fetcher_and_workers_run_on_the_cpus_that_were_named(stoker: StokerMount) -> None:
    stoker.mount("--warm", "--cpus", str(CPU))
    wait_until(lambda: _placed(stoker).keys() == _PLACED)
    assert _placed(stoker) == {name: {frozenset({CPU})} for name in _PLACED}
    assert f"runs on CPUs {CPU}, as they were asked for" in stoker.log()


def test_without_a_name_they_run_where_the_machine_lets_them(stoker: StokerMount) -> None:
    stoker.mount("--warm", "--cpus", "All")
    wait_until(lambda: _placed(stoker).keys() == _PLACED)
    assert _placed(stoker) == {name: {frozenset(os.sched_getaffinity(0))} for name in _PLACED}


@pytest.mark.parametrize(
    ("asked", "said"), [("8000", "CPUs 8000 cannot be used here: there are"), ("two", "is not a list of CPUs")]
)
def test_cpus_that_are_none_are_refused(stoker: StokerMount, asked: str, said: str) -> None:
    done = stoker.run("mount", "s3://data/set", str(stoker.data), "--cpus", asked)
    assert (done.returncode, said in done.stderr) == (2, True), done.stderr

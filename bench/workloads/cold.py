"""What a cold epoch of small files costs: files a second and CPU a file, where readers ask, and where nobody does."""

from collections.abc import Iterator

from bench.cold_files import GUESSED, KNOWN, WARMED, ColdRun, copy_by_s5cmd, read_cold
from bench.environment import Environment
from bench.report import Row
from bench.systems import NOBODY_READS, ORDER_KNOWN, S5CMD, STOKER

WORKLOAD = "cold"
CPU = "ms of CPU a file"
_READERS = 4
_CASES = {STOKER: GUESSED, ORDER_KNOWN: KNOWN, NOBODY_READS: WARMED}


def measure(env: Environment) -> Iterator[Row]:
    """Yield rows for each size of file."""
    for corpus in env.scale.second:
        case = f"{corpus.size >> 10} KiB, {_READERS} readers"
        runs: dict[str, list[ColdRun]] = {system: [] for system in (S5CMD, *_CASES)}
        with env.corpus(WORKLOAD, corpus) as prefix, env.profile("P0") as endpoint:
            for system in env.turns(f"{WORKLOAD}: {case}", runs):
                if system == S5CMD:
                    run = copy_by_s5cmd(env, corpus, prefix, endpoint)
                else:
                    run = read_cold(env, corpus, prefix, endpoint, _READERS, _CASES[system])
                runs[system].append(run)
        for system, mine in runs.items():
            yield from rows(case, system, mine)


def rows(case: str, system: str, runs: list[ColdRun]) -> Iterator[Row]:
    """Yield what the runs of a system came to; the note has the process' shares of the run in the middle."""
    middle = sorted(runs, key=lambda run: run.total_cpu)[len(runs) // 2]
    note = ", ".join(f"{name} {ms:.2f}" for name, ms in middle.cpu.items()) if len(middle.cpu) > 1 else ""
    yield Row(WORKLOAD, case, system, "files/s", tuple(run.rate for run in runs), S5CMD)
    yield Row(WORKLOAD, case, system, CPU, tuple(run.total_cpu for run in runs), S5CMD, note)

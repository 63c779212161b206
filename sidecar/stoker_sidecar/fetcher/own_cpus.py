"""Puts the fetcher, and with it its workers, on the CPUs that were asked for, or on those near its cache disks."""

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from stoker_sidecar.linux.cpu_sets import CpuChoice, choose_cpus, cpus_near, parse_cpus, run_on, usable_cpus
from stoker_sidecar.wire.cache_folder import FolderSpec

_log = logging.getLogger("stoker.fetcher")
AUTO, ALL = "Auto", "All"


def checked_cpus(text: str) -> str:
    """Return Auto, All, or a list of CPUs that can be read. Raises ValueError with a sentence."""
    word = text.strip().capitalize() or AUTO
    if word in (AUTO, ALL):
        return word
    parse_cpus(text)
    return text.strip()


@dataclass(frozen=True)
class CpuMachine:
    """What the machine has of CPUs, and how this process is put on some."""

    usable: Callable[[], frozenset[int]] = usable_cpus
    near: Callable[[Iterable[Path]], list[frozenset[int]]] = cpus_near
    run_on: Callable[[frozenset[int]], None] = run_on


def take_cpus(asked: str, folders: Sequence[FolderSpec], machine: CpuMachine | None = None) -> CpuChoice:
    """Run on the CPUs that are meant; to be called before there are threads and zygotes, which inherit them.

    What cannot be had is told and never keeps the fetcher from running.
    """
    machine = machine or CpuMachine()
    usable = machine.usable()
    wanted = None if asked == AUTO else usable if asked == ALL else parse_cpus(asked)
    disks = [Path(folder.path) for folder in folders if not folder.memory]
    choice = choose_cpus(wanted, usable, machine.near(disks) if asked == AUTO else ())
    if asked == ALL:
        choice = CpuChoice(usable, "all that can be used")
    try:
        if choice.cpus != usable:
            machine.run_on(choice.cpus)
    except OSError as error:  # the cgroup changed a moment ago
        choice = CpuChoice(usable, "all that can be used", f"the kernel refused others: {error.strerror}")
    _log.log(logging.WARNING if choice.trouble else logging.INFO, "runs on %s", choice.sentence)
    return choice

"""Makes the runs of a profile, one after the other, and puts together what they come to."""

import os
import shlex
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from stoker_api.meta import format_bytes
from stoker_cli.errors import CliError
from stoker_cli.profile_result import Profile
from stoker_cli.profiled_command import PLACEHOLDER, ProfiledCommand, filled
from stoker_cli.profiled_mounts import DataSource, GivenMount, WarmData
from stoker_cli.tuning_rows import printable
from stoker_tuning.profiling.epoch_split import EpochSplit, ProfiledRun, RunFigures, epoch_split
from stoker_tuning.profiling.predictions import InputPipeline

DATA_VARIABLE, RUN_VARIABLE = "STOKER_PROFILE_DATA", "STOKER_PROFILE_RUN"
_MEMORY = Path("/proc/meminfo")
_MOST_ERROR = 0.05  # of the parts' sum: beyond it, they are not to be relied on


@dataclass(frozen=True)
class ProfileOptions:
    """What is run, and how.

    ``synthetic``: the command line of the synthetic run. ``workers``: of its loader; ``items``: of an epoch; None: not
    said. ``first_epoch``: end it after that. ``scratch``: folder for what lies on a disk meanwhile.
    """

    command: tuple[str, ...]
    synthetic: str | None
    runs: tuple[ProfiledRun, ...]
    workers: int | None
    items: int | None
    first_epoch: bool
    scratch: Path


def profile_command(name: str, source: DataSource, options: ProfileOptions, say: Callable[[str], None]) -> Profile:
    """Run the command as often as asked for. Raises CliError."""
    _check_commands(options)
    say(f"fetching all of {name}, and reading it once")
    data = source.warm()
    memory = available_memory()
    figures: dict[ProfiledRun, RunFigures] = {}
    refused = ""
    for number, run in enumerate(options.runs, 1):
        folder = source.cold() if run is ProfiledRun.COLD else data.folder
        say(f"run {number} of {len(options.runs)}: {run}")
        command = _command(run, folder, options)
        with TemporaryDirectory(prefix="stoker-profile-", dir=options.scratch) as sockets:
            figures[run] = command.run(Path(sockets))
        refused = command.refused or refused
        say(f"{run}: {figures[run].seconds:.2f} s{_waited(figures[run])}")
    split = epoch_split(figures)
    pipeline = pipeline_of(figures, split, data, options)
    notes = [*_notes(figures, split, data, memory), *_about_cold(source, figures)]
    notes += [f"A line that the command reported did not count: {refused}"] if refused else []
    return Profile(name, split, pipeline, figures, tuple(notes))


def _check_commands(options: ProfileOptions) -> None:
    """Look whether what will be run is there, before anything is fetched. Raises CliError."""
    try:
        synthetic = shlex.split(options.synthetic or "")
    except ValueError as error:
        raise CliError(f"--synthetic is no command line: {error}.") from error
    for words in (options.command, synthetic):
        if words and PLACEHOLDER not in words[0] and shutil.which(words[0]) is None:
            raise CliError(f"{printable(words[0])} cannot be run: there is no such program.")


def _command(run: ProfiledRun, folder: Path, options: ProfileOptions) -> ProfiledCommand:
    synthetic = run is ProfiledRun.SYNTHETIC and options.synthetic
    words = shlex.split(synthetic) if synthetic else options.command
    environment = {DATA_VARIABLE: str(folder), RUN_VARIABLE: run.value}
    return ProfiledCommand(filled(words, folder), environment, first_epoch=options.first_epoch)


def pipeline_of(
    figures: Mapping[ProfiledRun, RunFigures], split: EpochSplit, data: WarmData, options: ProfileOptions
) -> InputPipeline:
    """Return what predictions follow from. Pure, but for the number of this machine's cores."""
    cached, cold = figures[ProfiledRun.CACHED], figures.get(ProfiledRun.COLD)
    return InputPipeline(
        compute=split.compute,
        warm=cached.seconds,
        cold=None if cold is None else cold.seconds,
        first=cached.first,
        items=options.items if options.items is not None else cached.items,
        transfer=data.size / data.bytes_per_second if data.bytes_per_second else None,
        cpu_seconds=cached.cpu_seconds,
        cores=len(os.sched_getaffinity(0)),
        workers=options.workers,
        scalable=cached.reported,
    )


def _waited(figures: RunFigures) -> str:
    return "" if figures.waited is None else f", {figures.waited:.2f} of them waiting for data"


def _notes(
    figures: Mapping[ProfiledRun, RunFigures], split: EpochSplit, data: WarmData, memory: int | None
) -> list[str]:
    notes = []
    if not figures[ProfiledRun.CACHED].reported:
        notes.append(
            "The command reports nothing, so whole durations are compared, start-up included, and no workers are "
            "predicted: with the report socket (docs/REPORTS.md) its first epoch counts, and waiting is told apart."
        )
    if memory is not None and data.size > memory:
        have, need = format_bytes(memory), format_bytes(data.size)
        notes.append(f"{need} of data do not fit the {have} of free memory: the cached run read from the disk as well.")
    if abs(split.sum_error) > _MOST_ERROR:
        notes.append(
            f"The parts are {100 * split.sum_error:+.0f} % off the epoch: something else takes time in it, such as "
            "validation or checkpoints, or the machine was busy. Run it again, with one epoch of training alone."
        )
    return notes


def _about_cold(source: DataSource, figures: Mapping[ProfiledRun, RunFigures]) -> list[str]:
    if isinstance(source, GivenMount) and ProfiledRun.COLD in figures:
        return ["Cold is cold in memory here: fetch is what the disk takes, not the bucket. A URL measures that."]
    return []


def available_memory() -> int | None:
    """Return the bytes that programs could have; None where nobody tells."""
    try:
        lines = _MEMORY.read_text().splitlines()
    except OSError:
        return None
    found = next((line.split()[1] for line in lines if line.startswith("MemAvailable:")), None)
    return None if found is None else int(found) * 1024

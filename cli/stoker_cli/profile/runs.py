"""Makes the runs of a profile one after another, and combines their figures."""

import os
import shlex
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from stoker_api.meta import format_bytes
from stoker_cli.errors import CliError
from stoker_cli.output import printable
from stoker_cli.profile.profiled_command import PLACEHOLDER, ProfiledCommand, filled
from stoker_cli.profile.profiled_mounts import DataSource, ExistingMount, WarmData
from stoker_cli.profile.result import Profile
from stoker_tuning.profiling.epoch_split import EpochSplit, ProfiledRun, RunFigures, epoch_split
from stoker_tuning.profiling.predictions import InputPipeline

DATA_VARIABLE, RUN_VARIABLE = "STOKER_PROFILE_DATA", "STOKER_PROFILE_RUN"
_MEMORY = Path("/proc/meminfo")
_MOST_ERROR = 0.05  # of the sum of the parts; a larger one gives a note


@dataclass(frozen=True)
class ProfileOptions:
    """The runs to make.

    ``synthetic``: command line of the synthetic run. ``workers``: of the loader; ``items``: of an epoch; None if
    unknown. ``first_epoch``: end the command after it. ``scratch``: folder for temporary files.
    """

    command: tuple[str, ...]
    synthetic: str | None
    runs: tuple[ProfiledRun, ...]
    workers: int | None
    items: int | None
    first_epoch: bool
    scratch: Path


def profile_command(name: str, source: DataSource, options: ProfileOptions, say: Callable[[str], None]) -> Profile:
    """Make the runs, and return the profile. Raises CliError."""
    _check_commands(options)
    say(f"fetching all data of {name}, and reading it once")
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
    notes += [f"A report of the command was invalid: {refused}"] if refused else []
    return Profile(name, split, pipeline, figures, tuple(notes))


def _check_commands(options: ProfileOptions) -> None:
    """Check that the programs exist, before data is fetched. Raises CliError."""
    try:
        synthetic = shlex.split(options.synthetic or "")
    except ValueError as error:
        raise CliError(f"--synthetic is not a valid command line: {error}.") from error
    for words in (options.command, synthetic):
        if words and PLACEHOLDER not in words[0] and shutil.which(words[0]) is None:
            raise CliError(f"Cannot run {printable(words[0])}: program not found.")


def _command(run: ProfiledRun, folder: Path, options: ProfileOptions) -> ProfiledCommand:
    synthetic = run is ProfiledRun.SYNTHETIC and options.synthetic
    words = shlex.split(synthetic) if synthetic else options.command
    environment = {DATA_VARIABLE: str(folder), RUN_VARIABLE: run.value}
    return ProfiledCommand(filled(words, folder), environment, first_epoch=options.first_epoch)


def pipeline_of(
    figures: Mapping[ProfiledRun, RunFigures], split: EpochSplit, data: WarmData, options: ProfileOptions
) -> InputPipeline:
    """Return the input of the predictions. Pure, except for the number of cores."""
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
    return "" if figures.waited is None else f", {figures.waited:.2f} s waiting for data"


def _notes(
    figures: Mapping[ProfiledRun, RunFigures], split: EpochSplit, data: WarmData, memory: int | None
) -> list[str]:
    notes = []
    if not figures[ProfiledRun.CACHED].reported:
        notes.append(
            "The command reports nothing, so whole runs with their startup are compared, and other worker counts are "
            "not predicted. Use the report socket (docs/guides/reports.md)."
        )
    if memory is not None and data.size > memory:
        have, need = format_bytes(memory), format_bytes(data.size)
        notes.append(f"{need} of data do not fit in {have} of free memory, so the cached run also read from the disk.")
    if abs(split.sum_error) > _MOST_ERROR:
        notes.append(
            f"The sum of the parts is {100 * split.sum_error:+.0f} % off the epoch. Validation, checkpoints or "
            "other load may take time. Repeat it with one epoch of training only."
        )
    return notes


def _about_cold(source: DataSource, figures: Mapping[ProfiledRun, RunFigures]) -> list[str]:
    if isinstance(source, ExistingMount) and ProfiledRun.COLD in figures:
        return ["Only the memory was cold, so fetch is the time of the disk. Use a URL to measure the bucket."]
    return []


def available_memory() -> int | None:
    """Return the available memory in bytes, or None if unknown."""
    try:
        lines = _MEMORY.read_text().splitlines()
    except OSError:
        return None
    kilobytes = next((line.split()[1] for line in lines if line.startswith("MemAvailable:")), None)
    return None if kilobytes is None else int(kilobytes) * 1024

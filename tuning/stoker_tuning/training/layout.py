"""Describes a version's files for training: splits, groups, model files. Built once from the manifest's rows."""

from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple

from stoker_tuning.model_files.names import kind_by_name
from stoker_tuning.training.split_names import SplitSource, split_of_file, split_of_folder
from stoker_tuning.vocabulary import ModelFileKind, Split

CHUNK = 8 * 1024 * 1024  # bytes of a large file that count as one unit
# With up to this many files, chunks can be units, at 8 bytes per file. With more files, files are the units.
_MOST_CHUNKED = 1 << 16
_MOST_RUNS = 4096
_MOST_MODEL_FILES = 4096
RuleWord = Callable[[str], Split | None]  # the split that a rule gives a path; None: no rule


class FileFact(NamedTuple):
    """A row of the manifest: the file's number, its path, its size in bytes. Numbers ascend, with gaps."""

    number: int
    path: str
    size: int


class ModelFile(NamedTuple):
    """A file of the version that belongs to a model."""

    path: str
    kind: ModelFileKind
    size: int


@dataclass
class FileRun:
    """Adjacent files of one group and split: from number ``first`` to the next run's first."""

    first: int
    group: str
    split: Split
    source: SplitSource
    files: int = 0
    bytes: int = 0
    units: int = 0


@dataclass
class DatasetLayout:
    """The split and group of each file, and the number of units (files, or chunks of 8 MiB) of each split.

    Memory: at most 4,096 runs and 4,096 model files, and 8 bytes per file if chunks are the units.
    """

    runs: list[FileRun] = field(default_factory=list)
    model_files: dict[int, ModelFile] = field(default_factory=dict)
    unit_ends: "array[int] | None" = None
    first_file: int = 0
    _firsts: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._firsts = [run.first for run in self.runs]

    def run(self, file: int) -> FileRun | None:
        """Return the run of a file; None without such a file."""
        index = bisect_right(self._firsts, file) - 1
        return self.runs[index] if index >= 0 else None

    def unit(self, file: int, offset: int) -> int:
        """Return the unit of a file at which an access begins."""
        if self.unit_ends is None:
            return file
        index = min(max(0, file - self.first_file), len(self.unit_ends) - 1)
        start = self.unit_ends[index - 1] if index else 0
        return min(start + max(0, offset) // CHUNK, self.unit_ends[index] - 1)

    def units(self, split: Split) -> int:
        """Count the units of a split."""
        return sum(run.units for run in self.runs if run.split is split)

    def bytes(self, split: Split) -> int:
        """Count the bytes of a split."""
        return sum(run.bytes for run in self.runs if run.split is split)

    def becomes_model(self, number: int, file: ModelFile) -> None:
        """Move a file from its run to the model files. Existing counters keep their counts."""
        run = self.run(number)
        if run is None or number in self.model_files or len(self.model_files) >= _MOST_MODEL_FILES:
            return
        self.model_files[number] = file
        run.files -= 1
        run.bytes -= file.size
        run.units -= 1 if self.unit_ends is None else -(-file.size // CHUNK) or 1

    @property
    def only_models(self) -> bool:
        """True if nearly all bytes are of models: a README or a list of labels is no training data."""
        models = sum(file.size for file in self.model_files.values())
        return bool(models) and sum(run.bytes for run in self.runs) < models / 100


def make_layout(files: Iterable[FileFact], word: RuleWord | None = None, *, by_chunk: bool = True) -> DatasetLayout:
    """Build a layout from the manifest's rows; ``word`` returns a path's split by rules, before its name is used.

    ``by_chunk``: if files are larger than a chunk on average, chunks are the units. Set it to False if only opens are
    observed, which do not show the part of a file that is read.
    """
    runs = _Runs(word)
    model_files: dict[int, ModelFile] = {}
    chunks = array("Q") if by_chunk else None
    first = None
    for fact in files:
        first = fact.number if first is None else first
        if chunks is not None:
            chunks = _count_chunks(chunks, fact.number - first, fact.size)
        kind = kind_by_name(fact.path)
        if kind is not ModelFileKind.UNKNOWN and len(model_files) < _MOST_MODEL_FILES:
            model_files[fact.number] = ModelFile(fact.path, kind, fact.size)
        else:
            runs.add(fact)
    return _finish(runs.runs, model_files, chunks, first or 0)


def _count_chunks(chunks: "array[int]", index: int, size: int) -> "array[int] | None":
    """Note a file's number of chunks; None if the files are too many to store one for each."""
    if index >= _MOST_CHUNKED:
        return None
    chunks.extend([0] * (index - len(chunks)))
    chunks.append(-(-size // CHUNK) or 1)
    return chunks


class _Runs:
    """The growing runs, with the group and split of the last file's folder."""

    def __init__(self, word: RuleWord | None) -> None:
        self.runs: list[FileRun] = []
        self._word = word
        self._folder: tuple[str, str, Split] = ("", "", Split.UNKNOWN)  # path, group, split

    def add(self, fact: FileFact) -> None:
        """Add a file to the last run, or begin a new run."""
        run = self._run(fact)
        run.files += 1
        run.bytes += fact.size
        run.units += -(-fact.size // CHUNK) or 1

    def _run(self, fact: FileFact) -> FileRun:
        folder, _, name = fact.path.rpartition("/")
        if folder != self._folder[0]:
            self._folder = (folder, folder.partition("/")[0], split_of_folder(folder))
        _, group, split = self._folder
        source = SplitSource.NAME
        told = self._word(fact.path) if self._word else None
        if told is not None:
            split, source = told, SplitSource.RULE
        elif split is Split.UNKNOWN:
            split = split_of_file(name)
            source = SplitSource.UNKNOWN if split is Split.UNKNOWN else source
        return self._joined(fact.number, group, split, source)

    def _joined(self, number: int, group: str, split: Split, source: SplitSource) -> FileRun:
        last = self.runs[-1] if self.runs else None
        if last and last.group == group and last.split is split and last.source is source:
            return last
        if len(self.runs) == _MOST_RUNS and last:
            last.group, last.split, last.source = "", Split.UNKNOWN, SplitSource.UNKNOWN
            return last
        self.runs.append(FileRun(number, group, split, source))
        return self.runs[-1]


def _finish(
    runs: list[FileRun], model_files: dict[int, ModelFile], chunks: "array[int] | None", first: int
) -> DatasetLayout:
    """Use chunks as units if files are large on average; else files."""
    files, size = sum(run.files for run in runs), sum(run.bytes for run in runs)
    if chunks is not None and files and size / files > CHUNK:
        return DatasetLayout(runs, model_files, array("Q", accumulate(chunks)), first)
    for run in runs:
        run.units = run.files
    return DatasetLayout(runs, model_files, None, first)


def split_sources(layout: DatasetLayout) -> Iterator[tuple[Split, SplitSource, int]]:
    """Yield each split with its source and its number of files."""
    counts: Counter[tuple[Split, SplitSource]] = Counter()
    for run in layout.runs:
        counts[run.split, run.source] += run.files
    for (split, source), files in sorted(counts.items()):
        yield split, source, files

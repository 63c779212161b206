"""How a workload reads and writes model files: complete loads, and the loads and saves of each file."""

from collections import OrderedDict
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from stoker_tuning.model_files.names import epoch_in_name
from stoker_tuning.training.accesses import ModelFileAction, ModelFileUse, SeenAccess
from stoker_tuning.training.layout import DatasetLayout
from stoker_tuning.vocabulary import ModelFileKind

_WHOLE = 0.9  # share of the bytes: metadata and unused tensors may stay unread
_SMALL = 1 << 20  # bytes
_KEPT = 256  # model files, the most recent ones


@dataclass
class ModelFileHistory:
    """Loads and saves of one model file; ``epoch``: of the checkpoint, from its name or a report; None: unknown."""

    kind: ModelFileKind
    loads: int = 0
    saves: int = 0
    first: float = 0.0
    last: float = 0.0
    epoch: int | None = None

    @property
    def saves_an_hour(self) -> float:
        """Saves per hour, from the first to the last use; 0 for fewer than two saves."""
        return self._an_hour(self.saves)

    @property
    def loads_an_hour(self) -> float:
        """Loads per hour, from the first to the last use; 0 for fewer than two loads."""
        return self._an_hour(self.loads)

    def _an_hour(self, times: int) -> float:
        elapsed = self.last - self.first
        return (times - 1) / elapsed * 3600 if times > 1 and elapsed > 0 else 0.0


@dataclass
class ModelReads:
    """The last 256 model files of a workload, and whether it has read the version's weights."""

    layout: DatasetLayout
    history: OrderedDict[str, ModelFileHistory] = field(default_factory=OrderedDict)
    loaded: bool = False
    _read: dict[tuple[str, str], int] = field(default_factory=dict)

    def read(self, access: SeenAccess, *, same_file: bool, contiguous: bool) -> bool:
        """Note an access to a model file; return True for a small read that does not continue the last one."""
        file = self.layout.model_files[access.file]
        if not same_file and access.offset == 0:
            self._note(access.seconds, file.path, file.kind, ModelFileAction.LOADED)
        if file.kind in (ModelFileKind.WEIGHTS, ModelFileKind.CHECKPOINT):
            self._count(file.path, access.length or file.size)
        return 0 < access.length <= _SMALL and not contiguous

    def _count(self, path: str, size: int) -> None:
        """Count bytes of a model: all files of one folder and extension."""
        model = _model(path)
        self._read[model] = self._read.get(model, 0) + size
        whole = sum(file.size for file in self.layout.model_files.values() if _model(file.path) == model)
        self.loaded = self.loaded or self._read[model] >= _WHOLE * whole

    def used(self, use: ModelFileUse) -> None:
        """Note a load or save outside the version."""
        self._note(use.seconds, use.name, use.kind, use.action)
        if use.action is ModelFileAction.LOADED and use.kind in (ModelFileKind.WEIGHTS, ModelFileKind.CHECKPOINT):
            self.loaded = True

    def _note(self, seconds: float, name: str, kind: ModelFileKind, action: ModelFileAction) -> None:
        known = self.history.setdefault(name, ModelFileHistory(kind, first=seconds, epoch=epoch_in_name(name)))
        known.loads += action is ModelFileAction.LOADED
        known.saves += action is ModelFileAction.SAVED
        known.last = seconds
        self.history.move_to_end(name)
        if len(self.history) > _KEPT:
            self.history.popitem(last=False)


def _model(path: str) -> tuple[str, str]:
    pure = PurePosixPath(path)
    return str(pure.parent), pure.suffix

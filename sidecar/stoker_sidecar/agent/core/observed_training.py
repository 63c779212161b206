"""A pod's training state, from its observed reads of each version. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from stoker_tuning.training.workload import WorkloadView
from stoker_tuning.vocabulary import AccessPattern, ModelFileKind, Split, TrainingPhase


class VersionView(NamedTuple):
    """A pod's observed use of one version. ``last``: time of its last read, in seconds."""

    view: WorkloadView
    only_models: bool
    last: float


@dataclass(frozen=True)
class ObservedTraining:
    """A pod's training state, derived from its reads. Figures are rounded for display.

    ``epoch`` counts from 0 (None: it has not trained); ``progress`` and ``error``: shares of an epoch, the error two
    standard errors. ``model``: the model file that it loaded last, and its kind; ``model_kind``: that kind alone.
    ``since``: when the phase began, in seconds of the monotonic clock.
    """

    phase: str = ""
    confidence: float | None = None
    epoch: int | None = None
    progress: float | None = None
    error: float | None = None
    pattern: str = ""
    splits: tuple[str, ...] = ()
    model: str = ""
    model_kind: str = ""
    since: float = float("-inf")


def observed_training(versions: Sequence[VersionView]) -> ObservedTraining:
    """Return a pod's state on the version that it trains on; if it does not train, on the version it read last."""
    model, kind = _model(versions)
    known = [one for one in versions if one.view.phase.phase is not TrainingPhase.UNKNOWN]
    if not known:
        return ObservedTraining(model=model, model_kind=kind)
    main = max(known, key=lambda one: (one.view.phase.trained, not one.only_models, one.last))
    view, epoch = main.view, main.view.epoch
    trained = view.phase.trained
    return ObservedTraining(
        phase=view.phase.phase,
        confidence=round(view.phase.confidence, 1),
        epoch=epoch.number if trained else None,
        progress=round(epoch.progress, 2) if trained else None,
        error=round(epoch.error, 2) if trained else None,
        pattern="" if view.pattern.pattern is AccessPattern.UNKNOWN else view.pattern.pattern,
        splits=tuple(sorted({split for split, _, _ in view.splits if split is not Split.UNKNOWN})),
        model=model,
        model_kind=kind,
        since=view.phase.since,
    )


def _model(versions: Sequence[VersionView]) -> tuple[str, str]:
    """Return the model file that was loaded last and its kind; both empty if none was loaded."""
    loaded = [
        (history.last, name, history.kind)
        for one in versions
        for name, history in one.view.model_files.items()
        if history.loads and history.kind not in (ModelFileKind.UNKNOWN, ModelFileKind.METADATA)
    ]
    if not loaded:
        return "", ""
    _, name, kind = max(loaded)
    return f"loaded {name[:220]} ({kind})", kind

"""The result of a profile: split, predictions and quality ratios, as rows and JSON. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field

from stoker_tuning.profiling.epoch_split import EpochSplit, ProfiledRun, RunFigures
from stoker_tuning.profiling.predictions import InputPipeline, PredictedEpoch, predictions
from stoker_tuning.profiling.quality_curve import QualityPoint, quality_curve

PART_COLUMNS = ("PART", "SECONDS", "SHARE", "MEANING")
PREDICTION_COLUMNS = ("IF", "SECONDS", "ITEMS/S", "GAIN", "BOUND BY", "HOW")
QUALITY_COLUMNS = ("QUALITY RATIO", "EPOCH COLD", "EPOCH WARM", "SEEN AFTER 1, 2, 3, 4 EPOCHS", "ALL SEEN AFTER")
_UNKNOWN = "-"


@dataclass(frozen=True)
class Profile:
    """A profile of ``subject``.

    ``runs``: empty for an observed job. ``notes``: sentences about the limits of the figures.
    """

    subject: str
    split: EpochSplit
    pipeline: InputPipeline
    runs: Mapping[ProfiledRun, RunFigures] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def predictions(self) -> tuple[PredictedEpoch, ...]:
        """Predicted epochs under other conditions."""
        return predictions(self.pipeline)

    @property
    def quality(self) -> tuple[QualityPoint, ...]:
        """Predicted epochs by quality ratio. Empty without a cold epoch."""
        now = self.pipeline
        if now.cold is None:
            return ()
        cold = self.runs.get(ProfiledRun.COLD)
        return quality_curve(now.cold, now.warm, now.compute, now.first, cold.progress if cold is not None else ())

    def gain(self, prediction: PredictedEpoch) -> float:
        """Return the predicted speedup over the profiled epoch."""
        return self.split.seconds / prediction.seconds if prediction.seconds > 0 else 1.0

    def wire(self) -> dict[str, object]:
        """Return it as JSON."""
        split = self.split
        return {
            "subject": self.subject,
            "seconds": split.seconds,
            "items": self.pipeline.items,
            "parts": {"compute": split.compute, "preparation": split.preparation, "fetch": split.fetch},
            "partsSum": split.parts_sum,
            "sumError": split.sum_error,
            "byDifference": split.by_difference,
            "runs": {run.value: _camel(asdict(figures)) for run, figures in self.runs.items()},
            "pipeline": _camel(asdict(self.pipeline)),
            "predictions": [
                _camel(asdict(prediction)) | {"gain": self.gain(prediction)} for prediction in self.predictions
            ],
            "quality": [_camel(asdict(point)) for point in self.quality],
            "notes": list(self.notes),
        }


def part_rows(profile: Profile) -> Iterator[tuple[str, ...]]:
    """Yield a row for each part, and one for their sum."""
    split = profile.split
    joint = split.preparation is None
    own = "computing, and waiting for preparation" if joint else "computing"
    yield _part(split, "compute", split.compute, own)
    if split.preparation is not None:
        yield _part(split, "preparation", split.preparation, "waiting for decoding and augmentation of local data")
    if split.fetch is not None:
        yield _part(split, "fetch", split.fetch, "waiting for data that was not local")
    yield _part(split, "sum", split.parts_sum, _checked(profile))


def _checked(profile: Profile) -> str:
    if not profile.runs:
        return "shares of the observed time"
    if profile.split.by_difference:
        return "differences of whole runs"
    return f"{100 * profile.split.sum_error:+.1f} % off the epoch"


def _part(split: EpochSplit, name: str, seconds: float, what: str) -> tuple[str, ...]:
    share = 100 * seconds / split.seconds if split.seconds > 0 else 0.0
    return name, f"{seconds:.2f}", f"{share:.0f} %", what


def prediction_rows(profile: Profile) -> Iterator[tuple[str, ...]]:
    """Yield a row for the measured epoch, and one for each prediction."""
    items = profile.pipeline.items
    rate = _rate(items / profile.split.seconds if items is not None and profile.split.seconds > 0 else None)
    yield "as it is", f"{profile.split.seconds:.2f}", rate, "", "", ""
    for prediction in profile.predictions:
        gain = f"{profile.gain(prediction):.2f} x"
        yield (
            prediction.change,
            f"{prediction.seconds:.2f}",
            _rate(prediction.items_per_second),
            gain,
            prediction.bound,
            prediction.how,
        )


def quality_rows(profile: Profile) -> Iterator[tuple[str, ...]]:
    """Yield a row for each ratio."""
    for point in profile.quality:
        seen = ", ".join(f"{100 * share:.0f} %" for share in point.coverage)
        epochs = "1 epoch" if point.epochs_to_all == 1 else f"{point.epochs_to_all} epochs"
        cold, warm = f"{point.seconds[0]:.2f} s", f"{point.warm_seconds:.2f} s"
        yield f"{point.ratio:.2f}", cold, warm, seen, f"{epochs}, {point.seconds_to_all:.2f} s"


def _rate(value: float | None) -> str:
    if value is None:
        return _UNKNOWN
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def _camel(values: Mapping[str, object]) -> dict[str, object]:
    """Return the values with camelCase names."""
    return {"".join([first, *map(str.title, rest)]): value for (first, *rest), value in _parted(values)}


def _parted(values: Mapping[str, object]) -> Iterator[tuple[list[str], object]]:
    return ((name.split("_"), value) for name, value in values.items())

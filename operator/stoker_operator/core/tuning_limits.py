"""What a DatasetClass lets be chosen of tuning."""

from dataclasses import dataclass
from fnmatch import fnmatchcase

from stoker_api.tuning import Tuning, TuningLimits
from stoker_operator.core.class_sources import allowed_by
from stoker_tuning.vocabulary import OptimizationLevel

_LEVELS = tuple(OptimizationLevel)  # the least first


@dataclass(frozen=True, slots=True)
class LimitedTuning:
    """A choice as the class lets it be, with what is less than was asked for, in sentences."""

    tuning: Tuning
    sentences: tuple[str, ...] = ()


def limit_tuning(tuning: Tuning, name: str, limits: TuningLimits) -> LimitedTuning:
    """Return a choice as the class ``name`` lets it be."""
    if not limits.allowed:
        asks = tuning.asks or ("enabled" in tuning.model_fields_set and tuning.enabled)
        sentence = f"tuning is not followed: {allowed_by(name, 'none')}"
        return LimitedTuning(Tuning(enabled=False), (sentence,) if asks else ())
    changes: dict[str, object] = {}
    sentences = []
    if tuning.profile and limits.profiles is not None and not _named(tuning.profile, limits.profiles):
        # Its template with it: the one that is meant is that profile's.
        changes |= {"profile": None, "template": None}
        allowed = allowed_by(name, ", ".join(limits.profiles) or "no profile to be named")
        sentences.append(f"tuning.profile {tuning.profile} is not followed: {allowed}")
    if tuning.level and limits.max_level and _LEVELS.index(tuning.level) > _LEVELS.index(limits.max_level):
        changes["level"] = limits.max_level
        allowed = allowed_by(name, f"{limits.max_level} at most")
        sentences.append(f"tuning.level {tuning.level} is taken as {limits.max_level}: {allowed}")
    return LimitedTuning(tuning.model_copy(update=changes) if changes else tuning, tuple(sentences))


def _named(profile: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(profile, pattern) for pattern in patterns)

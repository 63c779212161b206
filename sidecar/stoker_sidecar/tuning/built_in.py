"""The built-in rules alone: what is in force for a Dataset for which nobody chose anything."""

from functools import cache

from stoker_sidecar.tuning.source import TuningChoice


class BuiltInRules:
    """A TuningSource that chooses the built-in rules for every Dataset."""

    def choice(self, dataset_uid: str) -> TuningChoice:
        """Return the same choice for each."""
        return _built_in()


@cache
def _built_in() -> TuningChoice:
    """Read the documents; their reader takes 2 MB, which only nodes pay that have something to fetch."""
    from stoker_tuning.documents.assembly import builtin_rules

    return TuningChoice(tuple(builtin_rules()))

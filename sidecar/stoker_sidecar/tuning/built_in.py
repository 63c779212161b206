"""The built-in rules, in force for a Dataset without a TuningProfile."""

from functools import cache

from stoker_sidecar.tuning.source import TuningChoice


class BuiltInRules:
    """A TuningSource that chooses the built-in rules for every Dataset."""

    def choice(self, dataset_uid: str) -> TuningChoice:
        """Return the same choice for each Dataset."""
        return _built_in()


@cache
def _built_in() -> TuningChoice:
    """Read the documents. Their reader takes 2 MB, so import it only on nodes with something to fetch."""
    from stoker_tuning.documents.assembly import builtin_rules

    return TuningChoice(tuple(builtin_rules()))

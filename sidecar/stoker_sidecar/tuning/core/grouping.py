"""Assigns files to groups of equal knobs, by the rules for their readers."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from stoker_sidecar.linux.mounts.fuse_device import READ_AHEAD
from stoker_sidecar.tuning.core.file_knobs import file_knobs, kernel_read_ahead, merged
from stoker_sidecar.tuning.core.trial_rules import without_ahead
from stoker_sidecar.tuning.source import TuningChoice
from stoker_sidecar.wire.fetcher_hints import MOST_GROUPS, FileKnobs
from stoker_tuning.model_files.names import kind_by_name
from stoker_tuning.recommend.named_sets import DEFAULT_LEVEL, NamedSets
from stoker_tuning.recommend.recommendation import Explained, recommend
from stoker_tuning.rules.compiled import CompiledRule, compile_rules, narrowed
from stoker_tuning.rules.facts import FileFacts, Surroundings
from stoker_tuning.rules.file_rules import FileRules
from stoker_tuning.rules.merging import GivenValue, given_values
from stoker_tuning.rules.spec import ActionSpec, RuleOrigin, RuleSpec
from stoker_tuning.training.split_names import split_of_file, split_of_folder
from stoker_tuning.vocabulary import ActionTarget, ActionType, ModelFileKind, OptimizationLevel, RuleLayer, Split

# Cached results by set of applying rules: at most 16 kB each for 1,000 rules.
_MOST_KNOWN = 2_000
# The level of a Dataset has precedence after the rules of the profile, before environments and frameworks.
_AFTER_THE_PROFILE = -2


class CompiledChoice:
    """The compiled rules of a choice that set knobs of files. Raises PatternError."""

    def __init__(self, choice: TuningChoice) -> None:
        self.choice = choice
        aside = choice.left_out | choice.paused
        rules = () if choice.off else choice.rules
        wanted = [without_ahead(rule) if rule.id in aside else rule for rule in rules]
        if choice.level is not None and not choice.off:
            wanted.append(_own_level(choice.level))
        self.compiled: tuple[CompiledRule, ...] = compile_rules(wanted)

    def for_nobody_but(self, surroundings: Sequence[Surroundings]) -> Hashable:
        """Return a key. Workloads with equal keys have equal groups for all files."""
        return tuple(
            tuple((rule.place, round(rule.needed, 6), tuple(map(id, rule.conditions))) for rule in open_ones)
            for open_ones in (narrowed(self.compiled, each) for each in surroundings)
        )

    def can_matter(self, surroundings: Sequence[Surroundings]) -> bool:
        """Return True if any file may have other knobs than the default."""
        return any(narrowed(self.compiled, each) for each in surroundings)


@dataclass(slots=True)
class _AppliedTogether:
    """The result of a set of rules: the group (-1 if no group is left), and the places of rules that match and act.

    ``files``: number of files with this set.
    """

    number: int
    matched: tuple[int, ...]
    acted: tuple[int, ...]
    files: int = 0


class FileGrouping:
    """Assigns group numbers to files. Group 0 has the default knobs."""

    def __init__(self, rules: CompiledChoice, surroundings: Sequence[Surroundings]) -> None:
        self._rules = rules
        self._surroundings = surroundings
        self._sets = _named_sets()
        self._file_rules = [FileRules(rules.compiled, each) for each in surroundings]
        self._known: dict[Hashable, _AppliedTogether] = {}
        self._by_knobs: dict[FileKnobs, int] = {FileKnobs(): 0}
        self._split = ("", Split.UNKNOWN)
        self._matched = [0] * len(rules.compiled)
        self._acted = [0] * len(rules.compiled)
        self._places = {id(rule.spec): place for place, rule in enumerate(rules.compiled)}
        self.left_as_ever = 0  # number of files without a group
        self._read_ahead: int | None = None

    @property
    def knobs(self) -> tuple[FileKnobs, ...]:
        """The knobs of each group."""
        return tuple(self._by_knobs)

    @property
    def read_ahead(self) -> int | None:
        """The largest kernel read-ahead of any file, in bytes. None for the default."""
        return None if self._read_ahead == READ_AHEAD else self._read_ahead

    def unsorted(self) -> FileKnobs:
        """Return the knobs for files that have no group yet, by the rules for the whole Dataset."""
        compiled, most = self._rules.compiled, self._rules.choice.most_level
        given = [given_values(compiled, rules.applying_without_file(), None) for rules in self._file_rules]
        return merged(file_knobs(recommend(values, self._sets), most) for values in given)

    def counts(self) -> tuple[list[int], list[int]]:
        """Return the number of files per rule that match it, and that have one of its values."""
        for met in self._known.values():
            for places, counted in ((met.matched, self._matched), (met.acted, self._acted)):
                for place in places:
                    counted[place] += met.files
            met.files = 0
        return self._matched, self._acted

    def number(self, path: str, size: int) -> int:
        """Return the group of a file of ``size`` bytes."""
        file = FileFacts(path, size, kind_by_name(path), self._split_of(path))
        applying = tuple(rules.applying(file) for rules in self._file_rules)
        key = applying, file.type is ModelFileKind.UNKNOWN, file.split is Split.VALIDATION
        found = self._known.get(key)
        if found is None:
            found = self._met(key, applying, file)
        found.files += 1
        self.left_as_ever += found.number < 0
        return max(found.number, 0)

    def _met(self, key: Hashable, applying: Sequence[tuple[int, ...]], file: FileFacts) -> _AppliedTogether:
        if len(self._known) >= _MOST_KNOWN:
            self.counts()
            self._known.clear()
        compiled, most = self._rules.compiled, self._rules.choice.most_level
        wanted = [recommend(given_values(compiled, places, file), self._sets) for places in applying]
        model, split = file.type is not ModelFileKind.UNKNOWN, file.split or Split.UNKNOWN
        knobs = merged(file_knobs(one, most, split, model=model) for one in wanted)
        read_ahead = max(kernel_read_ahead(one, most) for one in wanted)
        self._read_ahead = max(read_ahead, self._read_ahead or 0)
        number = self._by_knobs.get(knobs)
        if number is None:
            number = len(self._by_knobs) if len(self._by_knobs) < MOST_GROUPS else -1
            if number > 0:
                self._by_knobs[knobs] = number
        matched = {place for places in applying for place in places}
        acts = number > 0 or read_ahead != READ_AHEAD
        met = self._known[key] = _AppliedTogether(number, tuple(matched), self._givers(wanted) if acts else ())
        return met

    def _givers(self, wanted: Sequence[Explained]) -> tuple[int, ...]:
        """Return the places of the rules that gave a value."""
        origins = (origin for one in wanted for origin in one.origins.values())
        return tuple({self._places[id(one.rule)] for one in origins if isinstance(one, GivenValue)})

    def _split_of(self, path: str) -> Split:
        """Return the split by names. Files come folder by folder."""
        slash = path.rfind("/") + 1
        if self._split[0] != path[:slash]:
            self._split = path[:slash], split_of_folder(path[:slash])
        return self._split[1] if self._split[1] is not Split.UNKNOWN else split_of_file(path[slash:])


# The knobs that matter for files on the disk: the page cache, and the read-ahead of mounts.
_FOR_WHOLE = ("page_cache_prefetch", "known_order", "kernel_read_ahead")


def concerns_whole_versions(choice: TuningChoice) -> bool:
    """Return True if a choice may have an effect on complete versions."""
    if choice.off:
        return False
    levels = {level for level, each in _named_sets()["level"].items() if set(_FOR_WHOLE) & each.values.keys()}
    given = [action.parameters for rule in choice.rules for action in rule.actions]
    named = {choice.level, *(each.get("level") for each in given)} - {DEFAULT_LEVEL}
    return not levels.isdisjoint(named) or any(knob in each for each in given for knob in _FOR_WHOLE)


def _named_sets() -> NamedSets:
    """Read the documents. Their reader takes 2 MB, so import it only on nodes with something to fetch."""
    from stoker_tuning.documents.named_sets import named_sets

    return named_sets()


def _own_level(level: OptimizationLevel) -> RuleSpec:
    action = ActionSpec(ActionType.PRIORITIZE, ActionTarget.DATASET, {"level": level})
    return RuleSpec("level", RuleOrigin("Dataset", RuleLayer.CUSTOM), (), (action,), _AFTER_THE_PROFILE)

"""What the documents of TuningProfiles are to a node: rules that are in force, or why they are not.

Pure.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from stoker_api import names
from stoker_api.meta import shortened
from stoker_api.tuning import MOST_NODE_PROFILES, NodeProfile, NodeTuning
from stoker_sidecar.tuning.built_in import BuiltInRules
from stoker_sidecar.tuning.source import TuningChoice
from stoker_tuning.documents.errors import DocumentError
from stoker_tuning.rules.spec import RuleSpec

if TYPE_CHECKING:
    from stoker_tuning.documents.assembly import TuningRules

_MOST_MESSAGE = 500
_KIND = "TuningProfile"  # its class has the documents' models, see below
_NOBODY = "stoker"  # what a document is called that has nothing but a template


@dataclass(frozen=True, slots=True)
class ProfileDocument:
    """One generation of a TuningProfile, unread."""

    name: str
    uid: str
    generation: int
    spec: Any

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> "ProfileDocument":
        """Return the document of an object as it came."""
        meta = raw["metadata"]
        return cls(str(meta["name"]), str(meta.get("uid", "")), int(meta.get("generation", 0)), raw.get("spec"))


@dataclass(frozen=True, slots=True)
class RulesInForce:
    """The rules that are in force for a profile and a template.

    ``document``: what was read last, None where there is none of that name; ``generation``: of the one whose rules
    these are, 0 for the built-in ones alone; ``template``: the one whose rules are among them; ``message``: why what
    the profile says now is not in force; ``note``: what else was left out; ``learns``: whether it is found out what
    comes of them; ``adapts``: whether numbers are found.
    """

    document: ProfileDocument | None
    rules: tuple[RuleSpec, ...]
    generation: int = 0
    template: str = ""
    message: str = ""
    note: str = ""
    learns: bool = True
    adapts: bool = True


class _NamedRules(NamedTuple):
    """Rules that were read, the template whose rules are among them, and what was left out, a sentence."""

    found: "TuningRules"
    template: str
    note: str


def built_in() -> tuple[RuleSpec, ...]:
    """Return the rules that come with Stoker."""
    return BuiltInRules().choice("").rules


def read_again(
    documents: tuple[str, str, str], document: ProfileDocument | None, last: RulesInForce | None
) -> RulesInForce:
    """Return what is in force now, of a profile with a template and an environment; each name may be empty.

    ``last``: what was; of a profile that was deleted meanwhile nothing stays.
    """
    name = documents[0]
    if document is None:
        missing = f"TuningProfile {name} does not exist: the built-in rules alone apply." if name else ""
        return _without_profile(documents, None, missing)
    try:
        _rules(document.name, document.spec, "", "")
    except DocumentError as error:
        first = error.problems[0]
        message = f"generation {document.generation} cannot be read: {first.path}: {first.message}"
        return _as_before(documents, document, last, message)
    except Exception as error:  # noqa: BLE001 -- a document is anyone's: it must not end the agent
        return _as_before(documents, document, last, f"generation {document.generation} cannot be read: {error!r}")
    read = _with_names(document.name, document.spec, documents)
    return RulesInForce(
        document,
        read.found.rules,
        document.generation,
        read.template,
        note=read.note,
        learns=read.found.metrics_collection,
        adapts=read.found.auto_tuning,
    )


def choice_of(tuning: NodeTuning, reading: RulesInForce | None, *, off: bool) -> TuningChoice:
    """Return what is chosen for a Dataset; None: nothing was read for it yet. ``off``: nothing is turned here."""
    found = reading or RulesInForce(None, built_in())
    return TuningChoice(
        rules=found.rules,
        profile=tuning.profile if found.generation else "",
        generation=found.generation,
        template=found.template or None,
        level=tuning.level,
        off=off or not tuning.enabled,
        most_level=tuning.most_level,
        learns=found.learns,
        adapts=found.adapts,
    )


def profile_rows(
    tunings: Iterable[NodeTuning], readings: Mapping[tuple[str, str, str], RulesInForce]
) -> tuple[NodeProfile, ...]:
    """Return a row for each profile that Datasets have, those first that are not in force as they are."""
    rows: dict[str, NodeProfile] = {}
    for tuning in tunings:
        reading = readings.get(tuning.documents)
        if not tuning.profile or not tuning.enabled or reading is None:
            continue
        count = rows[tuning.profile].datasets if tuning.profile in rows else 0
        message = shortened(reading.message, _MOST_MESSAGE)
        rows[tuning.profile] = NodeProfile(
            profile=tuning.profile, generation=reading.generation, datasets=count + 1, message=message
        )
    return tuple(sorted(rows.values(), key=lambda row: (not row.message, row.profile))[:MOST_NODE_PROFILES])


def _as_before(
    documents: tuple[str, str, str], document: ProfileDocument, last: RulesInForce | None, message: str
) -> RulesInForce:
    if last is None or not last.generation or last.document is None or last.document.uid != document.uid:
        return _without_profile(documents, document, f"{message}; the built-in rules alone apply.")
    kept = f"{message}; generation {last.generation} stays in force."
    return replace(last, document=document, message=kept)


def _without_profile(documents: tuple[str, str, str], document: ProfileDocument | None, message: str) -> RulesInForce:
    read = _with_names(_NOBODY, {}, documents)
    return RulesInForce(document, read.found.rules, template=read.template, message=message, note=read.note)


def _with_names(name: str, spec: Any, documents: tuple[str, str, str]) -> _NamedRules:
    """Read rules with those of a template and of an environment, each left out where it is not known.

    An environment that the document names itself counts. Of a template the operator says so, in the conditions of who
    named it.
    """
    _, template, environment = documents
    choices = dict.fromkeys(((template, environment), (template, ""), ("", environment)))
    for used, within in (each for each in choices if any(each)):
        try:
            found = _rules(name, spec or {}, used, within)
        except DocumentError:
            continue
        left = environment if environment and not within else ""
        return _NamedRules(found, used, _left_out(name, left))
    return _NamedRules(_rules(name, spec or {}, "", ""), "", _left_out(name, environment))


def _left_out(name: str, environment: str) -> str:
    if not environment:
        return ""
    where = "is not built in" if name == _NOBODY else f"is neither in TuningProfile {name} nor built in"
    return f"the environment {environment} {where}, so it is left out (the chart's value tuning.environment)"


def _rules(name: str, spec: Any, template: str, environment: str) -> "TuningRules":
    from stoker_tuning.documents.assembly import read_profile

    used = {**spec, "use": [*(spec.get("use") or ()), {"template": template}]} if template else spec
    if environment and not spec.get("environment"):
        used = {**used, "environment": environment}
    document = {"apiVersion": names.API_VERSION, "kind": _KIND, "metadata": {"name": name}, "spec": used}
    return read_profile(json.dumps(document))

"""What the documents of TuningProfiles are to a node: rules that are in force, or why they are not.

Pure.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

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
    the profile says now is not in force; ``learns``: whether it is found out what comes of them.
    """

    document: ProfileDocument | None
    rules: tuple[RuleSpec, ...]
    generation: int = 0
    template: str = ""
    message: str = ""
    learns: bool = True


def built_in() -> tuple[RuleSpec, ...]:
    """Return the rules that come with Stoker."""
    return BuiltInRules().choice("").rules


def read_again(name: str, template: str, document: ProfileDocument | None, last: RulesInForce | None) -> RulesInForce:
    """Return what is in force now. ``last``: what was; of a profile that was deleted meanwhile nothing stays."""
    if document is None:
        missing = f"TuningProfile {name} does not exist: the built-in rules alone apply." if name else ""
        return _without_profile(template, None, missing)
    try:
        _rules(document.name, document.spec, "")
    except DocumentError as error:
        first = error.problems[0]
        message = f"generation {document.generation} cannot be read: {first.path}: {first.message}"
        return _as_before(template, document, last, message)
    except Exception as error:  # noqa: BLE001 -- a document is anyone's: it must not end the agent
        return _as_before(template, document, last, f"generation {document.generation} cannot be read: {error!r}")
    found, used = _with_template(document.name, document.spec, template)
    return RulesInForce(document, found.rules, document.generation, used, learns=found.metrics_collection)


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
    )


def profile_rows(
    tunings: Iterable[NodeTuning], readings: Mapping[tuple[str, str], RulesInForce]
) -> tuple[NodeProfile, ...]:
    """Return a row for each profile that Datasets have, those first that are not in force as they are."""
    rows: dict[str, NodeProfile] = {}
    for tuning in tunings:
        reading = readings.get((tuning.profile, tuning.template))
        if not tuning.profile or not tuning.enabled or reading is None:
            continue
        count = rows[tuning.profile].datasets if tuning.profile in rows else 0
        message = shortened(reading.message, _MOST_MESSAGE)
        rows[tuning.profile] = NodeProfile(
            profile=tuning.profile, generation=reading.generation, datasets=count + 1, message=message
        )
    return tuple(sorted(rows.values(), key=lambda row: (not row.message, row.profile))[:MOST_NODE_PROFILES])


def _as_before(template: str, document: ProfileDocument, last: RulesInForce | None, message: str) -> RulesInForce:
    if last is None or not last.generation or last.document is None or last.document.uid != document.uid:
        return _without_profile(template, document, f"{message}; the built-in rules alone apply.")
    kept = f"{message}; generation {last.generation} stays in force."
    return replace(last, document=document, message=kept)


def _without_profile(template: str, document: ProfileDocument | None, message: str) -> RulesInForce:
    found, used = _with_template(_NOBODY, {}, template)
    return RulesInForce(document, found.rules, template=used, message=message)


def _with_template(name: str, spec: Any, template: str) -> tuple["TuningRules", str]:
    """Return the rules with those of a template, and the template; without it where it is not known."""
    if template:
        try:
            return _rules(name, spec, template), template
        except DocumentError:
            pass  # the operator says so, in the conditions of who named it
    return _rules(name, spec or {}, ""), ""


def _rules(name: str, spec: Any, template: str) -> "TuningRules":
    from stoker_tuning.documents.assembly import read_profile

    used = {**spec, "use": [*(spec.get("use") or ()), {"template": template}]} if template else spec
    document = {"apiVersion": names.API_VERSION, "kind": _KIND, "metadata": {"name": name}, "spec": used}
    return read_profile(json.dumps(document))

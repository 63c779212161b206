"""Read TuningProfile documents on a node: the rules in force, or why a profile is not in force. Pure."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from stoker_api import names
from stoker_api.meta import shortened
from stoker_api.profiles.tuning import MOST_NODE_PROFILES, NodeProfile, NodeTuning
from stoker_sidecar.tuning.source import BuiltInRules, TuningChoice
from stoker_tuning.documents.errors import DocumentError
from stoker_tuning.rules.spec import RuleSpec

if TYPE_CHECKING:
    from stoker_tuning.documents.assembly import TuningRules
    from stoker_tuning.documents.profile_models import TuningDocument

_MOST_MESSAGE = 500
_KIND = "TuningProfile"  # its class has the documents' models, see below
_NOBODY = "stoker"  # name of a document that has a template only


@dataclass(frozen=True, slots=True)
class ProfileDocument:
    """One generation of a TuningProfile, not parsed."""

    name: str
    uid: str
    generation: int
    spec: Any

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> "ProfileDocument":
        """Return the document of an object from the API server."""
        meta = raw["metadata"]
        return cls(str(meta["name"]), str(meta.get("uid", "")), int(meta.get("generation", 0)), raw.get("spec"))


@dataclass(frozen=True, slots=True)
class RulesInForce:
    """The rules in force for a profile and a template.

    ``document``: the last one read, None if no document has that name. ``generation``: of the profile with these rules,
    0 for built-in rules only. ``template``: the applied template. ``message``: why the profile's current spec is not in
    force. ``note``: other omissions. ``learns``: whether the node tests the rules.
    """

    document: ProfileDocument | None
    rules: tuple[RuleSpec, ...]
    generation: int = 0
    template: str = ""
    message: str = ""
    note: str = ""
    learns: bool = True


class _NamedRules(NamedTuple):
    """Rules, the applied template, and a sentence on omitted documents."""

    found: "TuningRules"
    template: str
    note: str


def built_in(plugins: "Sequence[TuningDocument]" = ()) -> tuple[RuleSpec, ...]:
    """Return the rules of Stoker and of plug-ins."""
    if not plugins:
        return BuiltInRules().choice("").rules
    from stoker_tuning.documents.assembly import builtin_rules

    return tuple(builtin_rules(plugins=plugins))


def read_again(
    documents: tuple[str, str, str],
    document: ProfileDocument | None,
    last: RulesInForce | None,
    plugins: "Sequence[TuningDocument]" = (),
) -> RulesInForce:
    """Return the rules now in force for a profile, a template and an environment; each name may be empty.

    ``last``: the previous rules; they do not outlive a deleted profile. ``plugins``: documents of plug-ins.
    """
    name, reader = documents[0], _ProfileReader(plugins)
    if document is None:
        missing = f"TuningProfile {name} does not exist: the built-in rules alone apply." if name else ""
        return reader.without_profile(documents, None, missing)
    try:
        reader.rules(document.name, document.spec, "", "")
    except DocumentError as error:
        first = error.problems[0]
        message = f"generation {document.generation} cannot be read: {first.path}: {first.message}"
        return reader.as_before(documents, document, last, message)
    except Exception as error:  # noqa: BLE001 -- a document is anyone's: it must not end the agent
        unread = f"generation {document.generation} cannot be read: {error!r}"
        return reader.as_before(documents, document, last, unread)
    read = reader.with_names(document.name, document.spec, documents)
    return RulesInForce(
        document,
        read.found.rules,
        document.generation,
        read.template,
        note=read.note,
        learns=read.found.metrics_collection,
    )


def choice_of(
    tuning: NodeTuning, reading: RulesInForce | None, *, off: bool, rules: tuple[RuleSpec, ...] | None = None
) -> TuningChoice:
    """Return the tuning choice of a Dataset. A ``reading`` of None: not read yet. ``off``: this node tunes nothing.

    ``rules``: for Datasets without a reading; None: the built-in ones.
    """
    found = reading or RulesInForce(None, built_in() if rules is None else rules)
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
    tunings: Iterable[NodeTuning], readings: Mapping[tuple[str, str, str], RulesInForce]
) -> tuple[NodeProfile, ...]:
    """Return a row for each profile of the Datasets; profiles whose current spec is not in force come first."""
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


class _ProfileReader:
    """Reads profiles together with the documents of plug-ins."""

    def __init__(self, plugins: "Sequence[TuningDocument]") -> None:
        self._plugins = plugins

    def as_before(
        self, documents: tuple[str, str, str], document: ProfileDocument, last: RulesInForce | None, message: str
    ) -> RulesInForce:
        """Return the previous rules if they are of this profile, else the built-in rules."""
        if last is None or not last.generation or last.document is None or last.document.uid != document.uid:
            return self.without_profile(documents, document, f"{message}; the built-in rules alone apply.")
        kept = f"{message}; generation {last.generation} stays in force."
        return replace(last, document=document, message=kept)

    def without_profile(
        self, documents: tuple[str, str, str], document: ProfileDocument | None, message: str
    ) -> RulesInForce:
        """Return the built-in rules, with those of the template and the environment."""
        read = self.with_names(_NOBODY, {}, documents)
        return RulesInForce(document, read.found.rules, template=read.template, message=message, note=read.note)

    def with_names(self, name: str, spec: Any, documents: tuple[str, str, str]) -> _NamedRules:
        """Read rules with those of a template and of an environment. Omit either if it is unknown.

        An environment in the document itself takes precedence. The operator reports an unknown template in the
        conditions of the object that names it.
        """
        _, template, environment = documents
        choices = dict.fromkeys(((template, environment), (template, ""), ("", environment)))
        for used, within in (each for each in choices if any(each)):
            try:
                found = self.rules(name, spec or {}, used, within)
            except DocumentError:
                continue
            left = environment if environment and not within else ""
            return _NamedRules(found, used, _left_out(name, left))
        return _NamedRules(self.rules(name, spec or {}, "", ""), "", _left_out(name, environment))

    def rules(self, name: str, spec: Any, template: str, environment: str) -> "TuningRules":
        """Read a document. Raises DocumentError."""
        from stoker_tuning.documents.assembly import read_profile

        used = {**spec, "use": [*(spec.get("use") or ()), {"template": template}]} if template else spec
        if environment and not spec.get("environment"):
            used = {**used, "environment": environment}
        document = {"apiVersion": names.API_VERSION, "kind": _KIND, "metadata": {"name": name}, "spec": used}
        return read_profile(json.dumps(document), self._plugins)


def _left_out(name: str, environment: str) -> str:
    if not environment:
        return ""
    where = "is not built in" if name == _NOBODY else f"is neither in TuningProfile {name} nor built in"
    return f"the environment {environment} {where}, so it is left out (the chart's value tuning.environment)"

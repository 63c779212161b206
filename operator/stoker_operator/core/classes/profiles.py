"""TuningProfiles in the operator: parsed by the reader that nodes use, with their problems."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

from pydantic import ValidationError

from stoker_api import names
from stoker_api.meta import ObjectMeta
from stoker_api.profiles.tuningprofile import TuningProfile, TuningProfileStatus
from stoker_tuning.documents.assembly import read_profile
from stoker_tuning.documents.builtin_documents import builtin_documents
from stoker_tuning.documents.errors import DocumentError
from stoker_tuning.vocabulary import RuleLayer

PROBLEMS_TOLD = 5  # problems in a message; the rest is only counted


@dataclass(frozen=True, slots=True)
class ProfileReading:
    """The content of one generation of a TuningProfile. ``problem``: why it is rejected, "" if it is valid."""

    problem: str = ""
    rules: int = 0  # without the built-in ones
    templates: frozenset[str] = frozenset()  # without the built-in ones
    size: int = 0  # bytes of the document


@dataclass(frozen=True, slots=True)
class ProfileView:
    """A TuningProfile without its document."""

    metadata: ObjectMeta
    reading: ProfileReading
    status: TuningProfileStatus = field(default_factory=TuningProfileStatus)


class ProfileReader:
    """Makes views of TuningProfiles. It reads each generation once, because statuses change more often than specs."""

    def __init__(self) -> None:
        self._known: Final[dict[str, tuple[tuple[str, int], ProfileReading]]] = {}

    def view(self, raw: Mapping[str, Any]) -> ProfileView:
        """Return the view of a raw object."""
        meta = ObjectMeta.model_validate(raw["metadata"])
        known = self._known.get(meta.name)
        if known is None or known[0] != (meta.uid, meta.generation):
            known = self._known[meta.name] = ((meta.uid, meta.generation), read_object(raw))
        return ProfileView(meta, known[1], _status(raw))


def read_object(raw: Mapping[str, Any]) -> ProfileReading:
    """Read a TuningProfile. Never raises."""
    name = str((raw.get("metadata") or {}).get("name", ""))
    spec = raw.get("spec")
    head = {"apiVersion": names.API_VERSION, "kind": TuningProfile.KIND, "metadata": {"name": name}}
    size = 0
    try:
        text = json.dumps(head | {"spec": spec})
        size = len(text)
        read = read_profile(text)
    except DocumentError as error:
        return ProfileReading(problem=_sentence(error), size=size)
    except Exception as error:  # noqa: BLE001 -- the boundary of an object: one must not end the watch of all
        return ProfileReading(problem=f"internal error, please report it: {error!r}")
    own = sum(rule.origin.document == name and rule.origin.layer is not RuleLayer.BUILT_IN for rule in read.rules)
    templates = (spec or {}).get("templates") or ()
    return ProfileReading(rules=own, templates=frozenset(str(each["id"]) for each in templates), size=size)


@cache
def builtin_templates() -> frozenset[str]:
    """Return the names of the built-in templates."""
    return frozenset(each.id for document in builtin_documents() for each in document.spec.templates)


def _sentence(error: DocumentError) -> str:
    """Describe the problems by path, because objects of the API server have no lines."""
    told = [f"{one.path}: {one.message}" if one.path else one.message for one in error.problems[:PROBLEMS_TOLD]]
    rest = len(error.problems) - len(told) + error.left_out
    return "; ".join(told) + (f"; and {rest} more problems" if rest else "")


def _status(raw: Mapping[str, Any]) -> TuningProfileStatus:
    try:
        return TuningProfileStatus.model_validate(raw.get("status") or {})
    except ValidationError:
        return TuningProfileStatus()

"""The documents that come with Stoker: rules, templates, frameworks, environments and hardware profiles.

They are YAML files next to this module, in the format of users' documents. LEVELS has a format of its own.
"""

from functools import cache
from importlib.resources import files

from stoker_tuning.documents.profile_models import TuningDocument
from stoker_tuning.documents.reading import read_document

_PACKAGE = "stoker_tuning.documents"
_FOLDER = "builtin"
LEVELS = "levels.yaml"


def builtin_sources() -> dict[str, str]:
    """Return the text of each document by its file's name."""
    folder = files(_PACKAGE) / _FOLDER
    found = sorted(each.name for each in folder.iterdir() if each.name.endswith(".yaml") and each.name != LEVELS)
    return {name: builtin_text(name) for name in found}


def builtin_text(name: str) -> str:
    """Return the text of one document."""
    return (files(_PACKAGE) / _FOLDER / name).read_text(encoding="utf-8")


@cache
def builtin_documents() -> tuple[TuningDocument, ...]:
    """Return the documents, checked as everyone's are."""
    return tuple(read_document(text)[0] for text in builtin_sources().values())

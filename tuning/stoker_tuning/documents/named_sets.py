"""Reads the named sets from their document, ``builtin/levels.yaml``."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from stoker_tuning.documents.builtin_documents import LEVELS, builtin_text
from stoker_tuning.documents.tree import read_tree
from stoker_tuning.documents.values import knob_value
from stoker_tuning.recommend.knobs import KNOB_BY_NAME
from stoker_tuning.recommend.named_sets import NamedSet, NamedSets


@cache
def named_sets() -> NamedSets:
    """Return the named sets that come with Stoker."""
    return parse_named_sets(builtin_text(LEVELS))


def parse_named_sets(source: str) -> NamedSets:
    """Parse a document of named sets. Raises ValueError, KeyError or TypeError for an invalid one."""
    return {
        knob: {str(knob_value(KNOB_BY_NAME[knob], name)): _named_set(**each) for name, each in sets.items()}
        for knob, sets in read_tree(source).value.items()
    }


def _named_set(values: Mapping[str, Any], **fields: Any) -> NamedSet:
    return NamedSet({name: knob_value(KNOB_BY_NAME[name], value) for name, value in values.items()}, **fields)

"""Rules and templates of framework plug-ins: a document like everyone's, held to the same bounds."""

import json

from stoker_tuning.documents.assembly import check_document
from stoker_tuning.documents.errors import DocumentError
from stoker_tuning.documents.profile_models import TuningDocument
from stoker_tuning.documents.reading import read_document
from stoker_tuning.frameworks.answers import PluginAnswer, PluginRefusedError


def plugin_document(answer: PluginAnswer) -> TuningDocument:
    """Make a plug-in's rules and templates a document; its rules count for workloads of its framework alone.

    Raises PluginRefusedError with a sentence where they are not what documents may say.
    """
    source = {
        "apiVersion": "stoker.dev/v1alpha1",
        "kind": "TuningProfile",
        "metadata": {"name": f"plugin-{answer.name.replace('_', '-').replace('.', '-')}"},
        "spec": {"frameworks": [{"name": answer.name, "rules": answer.rules}], "templates": answer.templates},
    }
    try:
        document, tree = read_document(json.dumps(source))
        check_document(document, tree)
    except DocumentError as error:
        first = error.problems[0]
        raise PluginRefusedError(f"its rules or templates are refused: {first.path}: {first.message}") from None
    return document

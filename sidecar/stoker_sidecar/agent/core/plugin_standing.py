"""What is thought of a framework plug-in: what it brings, or why it is left out, and when it is asked again. Pure."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from stoker_api.nodecache import NodePlugin
from stoker_sidecar.wire.plugins_protocol import ToldAnswer
from stoker_tuning.frameworks.answers import PluginAnswer, PluginRefusedError, parse_answer
from stoker_tuning.model_files.recognition import recognise
from stoker_tuning.vocabulary import ModelFileKind

if TYPE_CHECKING:
    from stoker_tuning.documents.profile_models import TuningDocument

# One that is in trouble is asked again after so many seconds: a node that just starts is slow. Then no more, until the
# sidecar starts anew.
AGAIN_SECONDS = (60.0, 600.0)
# From here on a file is taken to be of a framework.
SURE = 0.5


@dataclass(frozen=True)
class JudgedAnswer:
    """What one plug-in said, and its rules and templates as a document, if it has any; or why it is left out."""

    name: str
    package: str
    answer: PluginAnswer | None = None
    document: "TuningDocument | None" = None
    refused: str = ""


@dataclass(frozen=True)
class PluginStanding:
    """A plug-in as the node has it. ``answered``: it has said something; ``troubles``: how often it was left out.

    ``since``: when it was left out last, in seconds.
    """

    name: str
    package: str = ""
    answered: bool = False
    troubles: int = 0
    since: float = 0.0
    message: str = ""
    rules: int = 0
    templates: int = 0
    document: "TuningDocument | None" = None

    @property
    def asked(self) -> bool:
        """Whether it has said anything yet, or failed to."""
        return self.answered or bool(self.message)

    def again_in(self, now: float) -> float | None:
        """Return the seconds until one that is left out is asked again; None: it is not."""
        if not self.message or self.troubles > len(AGAIN_SECONDS):
            return None
        return max(0.0, self.since + AGAIN_SECONDS[self.troubles - 1] - now)

    def row(self) -> NodePlugin:
        """Return its row in the node's status."""
        again = "" if self.troubles <= len(AGAIN_SECONDS) else "; it is not asked again before the sidecar starts anew"
        message = self.message and f"{self.message}{again}"
        return NodePlugin(
            name=self.name, package=self.package, rules=self.rules, templates=self.templates, message=message
        )


def judged(told: ToldAnswer, files: int) -> JudgedAnswer:
    """Read what the asker told of a plug-in that was asked about so many files. Takes milliseconds; never raises."""
    if told.refused:
        return JudgedAnswer(told.name, told.origin, refused=told.refused)
    try:
        answer = parse_answer(told.name, told.said, files)
        document = None
        if answer.rules or answer.templates:
            from stoker_tuning.documents.plugin_documents import plugin_document

            document = plugin_document(answer)
    except PluginRefusedError as error:
        return JudgedAnswer(told.name, told.origin, refused=str(error))
    return JudgedAnswer(told.name, told.origin, answer, document)


def after(standing: PluginStanding, said: JudgedAnswer, now: float) -> PluginStanding:
    """Return a plug-in's standing after an answer: one that is wrong is left out whole."""
    if said.answer is None:
        troubles = standing.troubles + 1
        return PluginStanding(standing.name, said.package or standing.package, False, troubles, now, said.refused)
    return replace(
        standing,
        package=said.package,
        answered=True,
        message="",
        rules=len(said.answer.rules),
        templates=len(said.answer.templates),
        document=said.document,
    )


def framework_of(answers: list[PluginAnswer]) -> tuple[str, float]:
    """Return the framework of which files are most surely, and how sure; empty where nobody is sure enough."""
    sure = [(max(answer.confidences, default=0.0), answer.name) for answer in answers]
    best = max(sure, key=lambda one: one[0], default=(0.0, ""))
    return (best[1], best[0]) if best[0] >= SURE else ("", 0.0)


def kind_by_plugins(path: str, head: bytes, number: int, answers: list[PluginAnswer]) -> ModelFileKind:
    """Return what a file, the ``number``-th that was asked about, is to a model; Unknown for what is recognised anyway.

    The surest plug-in that knows a kind counts.
    """
    if recognise(path, head).kind is not ModelFileKind.UNKNOWN:
        return ModelFileKind.UNKNOWN
    known = [(one.confidences[number], one.kinds[number]) for one in answers]
    told = [each for each in known if each[0] >= SURE and each[1] is not ModelFileKind.UNKNOWN]
    return max(told, key=lambda one: one[0], default=(0.0, ModelFileKind.UNKNOWN))[1]

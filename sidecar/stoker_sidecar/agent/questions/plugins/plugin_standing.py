"""The standing of a plug-in: its rules, or why it is left out, and when the node asks it again. Pure."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Generic, TypeVar

from stoker_api.node_caches.nodecache_status import NodeOrderPlugin, NodePlugin
from stoker_plugins.questions import PluginQuestion
from stoker_sidecar.wire.plugins_protocol import ToldAnswer
from stoker_tuning.frameworks.answers import PluginAnswer, PluginRefusedError
from stoker_tuning.model_files.recognition import recognise
from stoker_tuning.vocabulary import ModelFileKind

if TYPE_CHECKING:
    from stoker_tuning.documents.profile_models import TuningDocument

# The node asks a failed plug-in again after these times, since a starting node is slow.
AGAIN_SECONDS = (60.0, 600.0)
# The lowest confidence that counts.
SURE = 0.5


A = TypeVar("A")


@dataclass(frozen=True)
class JudgedAnswer(Generic[A]):
    """The checked answer of one plug-in, with its rules and templates as a document; or why it is ``refused``."""

    name: str
    package: str
    answer: A | None = None
    document: "TuningDocument | None" = None
    refused: str = ""


@dataclass(frozen=True)
class PluginStanding:
    """The state of a plug-in on this node.

    ``message``: why it is left out. That happened ``troubles`` times, last at ``since`` in seconds. ``refused``: why an
    order plug-in told no order last, which may be the job's fault.
    """

    name: str
    package: str = ""
    answered: bool = False
    troubles: int = 0
    since: float = 0.0
    message: str = ""
    refused: str = ""
    rules: int = 0
    templates: int = 0
    document: "TuningDocument | None" = None

    @property
    def asked(self) -> bool:
        """Whether it answered, or failed to."""
        return self.answered or bool(self.wrong)

    @property
    def wrong(self) -> str:
        """Its trouble as a sentence, or empty."""
        return self.message or (self.refused and f"it told no order when it was asked last: {self.refused}")

    def again_in(self, now: float) -> float | None:
        """Return the seconds until the node asks again after a failure. None: it does not."""
        if not self.message or self.troubles > len(AGAIN_SECONDS):
            return None
        return max(0.0, self.since + AGAIN_SECONDS[self.troubles - 1] - now)

    def framework_row(self) -> NodePlugin:
        """Return the row of a framework plug-in in the node's status."""
        again = "" if self.troubles <= len(AGAIN_SECONDS) else "; it is not asked again before the sidecar restarts"
        message = self.message and f"{self.message}{again}"
        return NodePlugin(
            name=self.name, package=self.package, rules=self.rules, templates=self.templates, message=message
        )

    def order_row(self) -> NodeOrderPlugin:
        """Return the row of an order plug-in in the node's status."""
        return NodeOrderPlugin(name=self.name, package=self.package, message=self.wrong)


def judged(told: ToldAnswer, question: PluginQuestion[A]) -> JudgedAnswer[A]:
    """Check the answer of a plug-in. Blocks: 0.1 s for an order of a million samples. Never raises."""
    if told.refused:
        return JudgedAnswer(told.name, told.origin, refused=told.refused)
    try:
        answer, document = question.read(told.name, told.said), None
        if isinstance(answer, PluginAnswer) and (answer.rules or answer.templates):
            from stoker_tuning.documents.assembly import plugin_document

            document = plugin_document(answer)
    except PluginRefusedError as error:
        return JudgedAnswer(told.name, told.origin, refused=str(error))
    return JudgedAnswer(told.name, told.origin, answer, document)


def after(standing: PluginStanding, said: JudgedAnswer[A], now: float, *, job: bool = False) -> PluginStanding:
    """Return a plug-in's standing after an answer. A wrong answer leaves it out, with its rules.

    ``job``: the question was a job's own, so a wrong answer leaves the plug-in in place.
    """
    package = said.package or standing.package
    if said.answer is None and job:
        return replace(standing, package=package, refused=said.refused)
    if said.answer is None:
        troubles, refused = standing.troubles + 1, standing.refused
        return PluginStanding(standing.name, package, False, troubles, now, said.refused, refused)
    found = said.answer if isinstance(said.answer, PluginAnswer) else None
    return replace(
        standing,
        package=package,
        answered=True,
        message="",
        refused="" if job else standing.refused,
        rules=len(found.rules) if found else 0,
        templates=len(found.templates) if found else 0,
        document=said.document,
    )


def framework_of(answers: list[PluginAnswer]) -> tuple[str, float]:
    """Return the framework of the surest plug-in, and its confidence; empty if no plug-in is sure enough."""
    sure = [(max(answer.confidences, default=0.0), answer.name) for answer in answers]
    best = max(sure, key=lambda one: one[0], default=(0.0, ""))
    return (best[1], best[0]) if best[0] >= SURE else ("", 0.0)


def kind_by_plugins(path: str, head: bytes, number: int, answers: list[PluginAnswer]) -> ModelFileKind:
    """Return the kind of a model file, the ``number``-th of the question, by the surest plug-in that knows it.

    Unknown for files that Stoker recognizes itself.
    """
    if recognise(path, head).kind is not ModelFileKind.UNKNOWN:
        return ModelFileKind.UNKNOWN
    known = [(one.confidences[number], one.kinds[number]) for one in answers]
    told = [each for each in known if each[0] >= SURE and each[1] is not ModelFileKind.UNKNOWN]
    return max(told, key=lambda one: one[0], default=(0.0, ModelFileKind.UNKNOWN))[1]

"""Tuning: what Datasets and TrainingJobs choose of it, what classes let them, and what nodes are told and say."""

from typing import Annotated

from pydantic import Field

from stoker_api.meta import Model, Name, ShortMessage
from stoker_tuning.vocabulary import OptimizationLevel

MOST_TUNING_ROWS = 50  # of NodeCache.status.tuning
MOST_NODE_PROFILES = 20  # of NodeCache.status.tuningProfiles
# As documents have it (ID_PATTERN of stoker_tuning.documents.values): a test compares. Agents do without their reader.
TEMPLATE_PATTERN = r"^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$"
_INT64 = {"format": "int64"}
_PROFILE = Annotated[str, Field(max_length=253)]
_Template = Annotated[str, Field(pattern=TEMPLATE_PATTERN, max_length=63)]


class Tuning(Model):
    """How what is seen of a workload is acted upon."""

    enabled: Annotated[bool, Field(description="False: nothing is turned; everything is as its defaults are.")] = True
    profile: Annotated[
        Name | None,
        Field(description="A TuningProfile, whose rules go before the built-in ones. Absent: the cluster's default."),
    ] = None
    template: Annotated[
        _Template | None,
        Field(description="A template of that profile, or a built-in one, that is put to use beside the rules."),
    ] = None
    level: Annotated[
        OptimizationLevel | None,
        Field(description="How much is spent on being early, whatever rules say. Absent: as the rules and phases say."),
    ] = None

    @property
    def asks(self) -> bool:
        """Tell whether anything is asked for."""
        return bool(self.profile or self.template or self.level)


_ALLOWED = Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[a-z0-9*.-]+$")]


class TuningLimits(Model):
    """What of tuning Datasets of a class, and the TrainingJobs that use them, may choose."""

    allowed: Annotated[bool, Field(description="Whether they are tuned at all.")] = True
    profiles: Annotated[
        tuple[_ALLOWED, ...] | None,
        Field(
            description="TuningProfiles that they may name (with * as a wildcard); another one is not followed. The "
            "cluster's default is not named. Absent: all.",
            max_length=50,
        ),
    ] = None
    max_level: Annotated[
        OptimizationLevel | None,
        Field(
            description="The highest level, also of what rules say; a higher one is taken as this. Absent: no limit."
        ),
    ] = None


class NodeTuning(Model):
    """What a node is told of the tuning of one Dataset: names, whose documents it reads itself."""

    enabled: Annotated[bool, Field(description="False: nothing is turned for it.")] = True
    profile: Annotated[_PROFILE, Field(description="A TuningProfile; empty: the built-in rules alone.")] = ""
    template: Annotated[str, Field(description="A template that is put to use.", max_length=63)] = ""
    environment: Annotated[
        str, Field(description="The environment that is in force where the profile names none.", max_length=63)
    ] = ""
    level: Annotated[OptimizationLevel | None, Field(description="The level, whatever rules say.")] = None
    most_level: Annotated[OptimizationLevel | None, Field(description="The highest level, also of what rules say.")] = (
        None
    )

    @property
    def asks(self) -> bool:
        """Tell whether it names documents, or parts of them."""
        return any(self.documents)

    @property
    def documents(self) -> tuple[str, str, str]:
        """What the rules follow from: profile, template and environment, each of which may be empty."""
        return self.profile, self.template, self.environment


class NodeProfile(Model):
    """A TuningProfile that Datasets of a node have."""

    profile: Annotated[_PROFILE, Field(description="Its name.")]
    generation: Annotated[
        int, Field(json_schema_extra=_INT64, description="The one whose rules are in force; 0: the built-in rules are.")
    ] = 0
    datasets: Annotated[int, Field(description="Datasets of this node that have it.")] = 0
    message: Annotated[ShortMessage, Field(description="Why what it says now is not in force; empty: it is.")] = ""


class RuleFigures(Model):
    """What came of one rule."""

    rule: Annotated[str, Field(description="Its id.", max_length=200)]
    matched: Annotated[int, Field(json_schema_extra=_INT64, description="How often it applied.")] = 0
    acted: Annotated[int, Field(json_schema_extra=_INT64, description="How often something was turned for it.")] = 0
    helped: Annotated[
        int, Field(json_schema_extra=_INT64, description="How often that helped, where it was found out.")
    ] = 0


class NodeRuleFigures(RuleFigures):
    """What came of one rule on a node, since its sidecar started."""

    profile: Annotated[_PROFILE, Field(description="The TuningProfile; empty: the built-in rules.")] = ""

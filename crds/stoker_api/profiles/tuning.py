"""Tuning: the choices of Datasets and TrainingJobs, the limits of classes, and what nodes receive and report."""

from typing import Annotated

from pydantic import Field

from stoker_api.meta import Model, Name, ShortMessage
from stoker_tuning.vocabulary import OptimizationLevel

MOST_TUNING_ROWS = 50  # of NodeCache.status.tuning
MOST_NODE_PROFILES = 20  # of NodeCache.status.tuningProfiles
# Equals ID_PATTERN of stoker_tuning.documents.values, which agents do not import. A test compares the two.
TEMPLATE_PATTERN = r"^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$"
_INT64 = {"format": "int64"}
_PROFILE = Annotated[str, Field(max_length=253)]
_Template = Annotated[str, Field(pattern=TEMPLATE_PATTERN, max_length=63)]


class Tuning(Model):
    """Tuning of a workload."""

    enabled: Annotated[bool, Field(description="False: Stoker changes no setting; all have their defaults.")] = True
    profile: Annotated[
        Name | None,
        Field(description="A TuningProfile, whose rules precede the built-in ones. Absent: the cluster's default."),
    ] = None
    template: Annotated[
        _Template | None,
        Field(description="A template of that profile, or a built-in one, to apply in addition to the rules."),
    ] = None
    level: Annotated[
        OptimizationLevel | None,
        Field(
            description="How much is spent on early preparation, after the profile's own rules. Basic: nothing. "
            "Absent: the rules decide, or Balanced."
        ),
    ] = None

    @property
    def asks(self) -> bool:
        """Return True if it requests a profile, a template or a level."""
        return bool(self.profile or self.template or self.level)


_ALLOWED = Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[a-z0-9*.-]+$")]


class TuningLimits(Model):
    """Limits on the tuning of a class's Datasets and of TrainingJobs that use them."""

    allowed: Annotated[bool, Field(description="Whether their workloads are tuned.")] = True
    profiles: Annotated[
        tuple[_ALLOWED, ...] | None,
        Field(
            description="TuningProfiles that they may name, with * as a wildcard. Others have no effect. The "
            "cluster's default needs no entry. Absent: all.",
            max_length=50,
        ),
    ] = None
    max_level: Annotated[
        OptimizationLevel | None,
        Field(description="The highest level, also for rules. Below Balanced, it limits figures. Absent: no limit."),
    ] = None


class NodeTuning(Model):
    """A node's tuning of one Dataset: names of documents that the node reads itself."""

    enabled: Annotated[bool, Field(description="False: Stoker changes no setting for it.")] = True
    profile: Annotated[_PROFILE, Field(description="A TuningProfile. Empty: only the built-in rules.")] = ""
    template: Annotated[str, Field(description="A template to apply.", max_length=63)] = ""
    environment: Annotated[
        str, Field(description="The environment in force if the profile names none.", max_length=63)
    ] = ""
    level: Annotated[OptimizationLevel | None, Field(description="The level, after the profile's own rules.")] = None
    most_level: Annotated[OptimizationLevel | None, Field(description="The highest level, also for rules.")] = None

    @property
    def asks(self) -> bool:
        """Return True if it names documents or parts of them."""
        return any(self.documents)

    @property
    def documents(self) -> tuple[str, str, str]:
        """The source of the rules: profile, template and environment. Each can be empty."""
        return self.profile, self.template, self.environment


class NodeProfile(Model):
    """A TuningProfile of a node's Datasets."""

    profile: Annotated[_PROFILE, Field(description="Its name.")]
    generation: Annotated[
        int,
        Field(json_schema_extra=_INT64, description="Generation whose rules are in force. 0: the built-in rules are."),
    ] = 0
    datasets: Annotated[int, Field(description="Number of Datasets of this node that use it.")] = 0
    message: Annotated[ShortMessage, Field(description="Why its latest spec is not in force. Empty: it is.")] = ""


class RuleFigures(Model):
    """Statistics of one rule."""

    rule: Annotated[str, Field(description="Its id.", max_length=200)]
    matched: Annotated[int, Field(json_schema_extra=_INT64, description="Number of matches.")] = 0
    acted: Annotated[int, Field(json_schema_extra=_INT64, description="Number of matches that changed a setting.")] = 0
    helped: Annotated[
        int, Field(json_schema_extra=_INT64, description="Number of Datasets that it measurably helped.")
    ] = 0


class NodeRuleFigures(RuleFigures):
    """Statistics of one rule on a node. Matches count since its sidecar started."""

    profile: Annotated[_PROFILE, Field(description="The TuningProfile; empty: the built-in rules.")] = ""

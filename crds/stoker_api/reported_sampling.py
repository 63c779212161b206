"""The order that a pod says itself: the format of the annotation, with where it begins to read."""

from dataclasses import replace
from typing import Annotated, Self

from pydantic import Field, ValidationError, model_validator

from stoker_api.sampling import MOST_EPOCHS, Sampling, wrong_at
from stoker_orders.predictors.samplers import sampler_named, sampler_of
from stoker_orders.sampling_plan import EpochStart, SamplingPlan

MOST_REPORTED = 512  # characters; docs/REPORTS.md
_MOST_SAMPLES = 2**32
_MOST_BEFORE = 100  # epochs whose numbers are drawn in vain where an order follows from all before


class ReportedSampling(Sampling, extra="forbid"):
    """A sampling in a line of a report. Whoever reports need not know how many epochs there will be."""

    epochs: Annotated[int, Field(ge=1, le=MOST_EPOCHS)] = MOST_EPOCHS
    epoch: Annotated[int, Field(description="The epoch that is read.", ge=0, lt=MOST_EPOCHS)] = 0
    base: Annotated[
        int,
        Field(description="Samples of it that another number of ranks has read.", ge=0, le=_MOST_SAMPLES),
    ] = 0
    position: Annotated[
        int, Field(description="Samples of it that each rank has read after those.", ge=0, le=_MOST_SAMPLES)
    ] = 0

    @model_validator(mode="after")
    def _is_in_the_run(self) -> Self:
        if self.epoch >= self.epochs:
            raise ValueError(f"epoch is {self.epoch} of {self.epochs} epochs: the first one is 0")
        if sampler_of(sampler_named(self.sampler)).stateful and self.epoch > _MOST_BEFORE:
            raise ValueError(f"epoch is {self.epoch}: {self.sampler} is followed from epoch {_MOST_BEFORE} on at most")
        return self

    def plan(self) -> SamplingPlan:
        """Return it for the library that computes orders."""
        return replace(super().plan(), start=EpochStart(self.epoch, self.base, self.position))


def parse_reported_sampling(text: str) -> ReportedSampling:
    """Read the field ``sampling`` of a report, whatever it is. Raises ValueError with a sentence."""
    if len(text) > MOST_REPORTED:
        raise ValueError(f"the report's sampling has {len(text)} characters, and {MOST_REPORTED} are allowed")
    try:
        return ReportedSampling.model_validate_json(text)
    except ValidationError as error:
        # Names of fields are the pod's, and end in a status.
        told = "".join(letter if letter.isprintable() else "?" for letter in wrong_at(error))
        raise ValueError(f"the report's sampling is wrong{told}") from error

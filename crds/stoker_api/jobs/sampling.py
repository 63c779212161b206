"""The order of a training job's samples, as its owner writes it in a TrainingJob or as JSON on any pod."""

from collections.abc import Mapping
from enum import StrEnum
from fractions import Fraction
from typing import Annotated, Self

from pydantic import Field, ValidationError, model_validator

from stoker_api import names
from stoker_api.meta import Model, shortened
from stoker_orders.predictors.samplers import OF_A_PLUGIN, PLUGIN_NAME, SamplerName, sampler_named
from stoker_orders.sampling_plan import SampleFiles, SampleLayout, SamplingPlan

_INT64 = {"format": "int64"}
_MOST_SEED = 2**53 - 1  # every JSON parser keeps such integers exact
MOST_RANKS, MOST_RANKS_HERE = 100_000, 64
_MOST_BATCH, _MOST_LOADERS, _MOST_RECORD = 1_000_000, 256, 2**40
_MOST_DENOMINATOR = 1000  # of a ratio, as stoker-client rounds it
MOST_EPOCHS = 1_000_000
MOST_CHARACTERS = 8192  # of the annotation: room for the longest path with every field
_MOST_SAMPLER = len(OF_A_PLUGIN) + 40
_MOST_PARAMETERS, _MOST_PARAMETER_NAME, _MOST_PARAMETER = 16, 40, 200
_NUMPY = frozenset({SamplerName.HUGGINGFACE_SHUFFLE, SamplerName.NUMPY_PERMUTATION})
_EXAMPLE = f"""write for example {names.ANNOTATION_SAMPLING}: '{{"sampler": "torch-distributed", "seed": 42}}'"""


class Reseed(StrEnum):
    """Whether each epoch has a different order."""

    EACH_EPOCH = "EachEpoch"
    NEVER = "Never"


class SampleFilesSpec(Model):
    """The layout of samples in the Dataset's files."""

    layout: Annotated[
        SampleLayout,
        Field(
            description="ImageFolder: one sample per file, sorted as in torchvision. FileList: one sample per file, "
            "one path per line of the text file `path`. Shards: files by name, with `samplesPerShard` "
            "samples each or the counts of `index`. Records: one file of samples of `recordBytes`, or "
            "at the offsets of `index`."
        ),
    ] = SampleLayout.IMAGE_FOLDER
    path: Annotated[
        str, Field(description="Folder, list, pattern or file below the Dataset's root; empty: all.", max_length=1024)
    ] = ""
    samples_per_shard: Annotated[
        int, Field(description="Samples per shard. With 1, the sampler orders whole shards.", ge=1, le=10_000_000)
    ] = 1
    record_bytes: Annotated[
        int, Field(description="Size of one sample.", ge=0, le=_MOST_RECORD, json_schema_extra=_INT64)
    ] = 0
    header_bytes: Annotated[
        int, Field(description="Bytes before the first record.", ge=0, le=_MOST_RECORD, json_schema_extra=_INT64)
    ] = 0

    index: Annotated[
        str,
        Field(
            description="A text file below the Dataset's root. Shards: one line NAME COUNT each, or JSON of names "
            "and counts. Records: one line OFFSET or OFFSET LENGTH each, in file order.",
            max_length=1024,
        ),
    ] = ""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        """Refuse contradictory fields. Raises ValueError with a sentence."""
        layout, records = self.layout, self.layout is SampleLayout.RECORDS
        if layout in (SampleLayout.FILE_LIST, SampleLayout.RECORDS) and not self.path:
            raise ValueError(f"files.path is needed for {layout}: write the path of the file in the Dataset")
        if self.index and not records and layout is not SampleLayout.SHARDS:
            raise ValueError(f"files.index is for Shards and Records, and {layout} needs no index: leave it out")
        if self.index and (self.record_bytes or self.header_bytes or self.samples_per_shard != 1):
            raise ValueError(
                "files.index says how samples lie: leave samplesPerShard, recordBytes and headerBytes out, or the index"
            )
        if records and not self.record_bytes and not self.index:
            raise ValueError(
                "files.recordBytes is needed for Records: write the bytes of one sample, or files.index where it varies"
            )
        for name, path in (("path", self.path), ("index", self.index)):
            if ".." in path.split("/") or "\0" in path:
                raise ValueError(f"files.{name} must lie in the Dataset: write it without '..'")
        return self


class Sampling(Model):
    """A known order of samples, in which nodes prefetch (docs/guides/known-orders.md)."""

    sampler: Annotated[
        str,
        Field(
            description="The sampler that defines the order. plugin:NAME: an order plug-in, which the nodes must have.",
            pattern=f"^({'|'.join(SamplerName)}|{OF_A_PLUGIN}{PLUGIN_NAME})$",
            max_length=_MOST_SAMPLER,
        ),
    ] = SamplerName.TORCH_DISTRIBUTED.value
    seed: Annotated[
        int, Field(description="Seed of the order.", ge=-_MOST_SEED, le=_MOST_SEED, json_schema_extra=_INT64)
    ] = 0
    reseed: Annotated[
        Reseed | None,
        Field(
            description="EachEpoch: the seed of an epoch is seed plus epoch. Never: it is seed. Absent: the "
            "sampler's default."
        ),
    ] = None
    epochs: Annotated[int, Field(description="Number of passes over all samples.", ge=1, le=MOST_EPOCHS)] = 1
    batch: Annotated[int, Field(description="Samples of one rank in a batch.", ge=1, le=_MOST_BATCH)] = 1
    loaders: Annotated[
        int, Field(description="Loader processes of one rank, as num_workers.", ge=0, le=_MOST_LOADERS)
    ] = 0
    drop_last: Annotated[
        bool, Field(description="Whether a remainder that does not divide evenly among the ranks is dropped.")
    ] = False
    ranks: Annotated[
        int | None,
        Field(description="Ranks of all pods together. Absent: the ranks of all workers.", ge=1, le=MOST_RANKS),
    ] = None
    ranks_per_pod: Annotated[int, Field(description="Ranks of one pod.", ge=1, le=MOST_RANKS_HERE)] = 1
    rank: Annotated[
        int | None,
        Field(description="First rank of the pod. Absent: from its completion index.", ge=0, le=MOST_RANKS),
    ] = None
    dataset: Annotated[str, Field(description="The Dataset of the samples. Empty: the first one.", max_length=253)] = ""
    group_size: Annotated[
        int | None, Field(description="For stoker-group-shuffle: samples of each group.", ge=1, le=10_000_000)
    ] = None
    reservoir: Annotated[
        int, Field(description="For stoker-group-shuffle: open groups of a rank at a time.", ge=1, le=1_000_000)
    ] = 256
    ratio: Annotated[
        float | None,
        Field(description="For stoker-quality-ratio: the share of the samples in an epoch.", ge=0.001, le=1),
    ] = None
    parameters: Annotated[
        dict[
            Annotated[str, Field(min_length=1, max_length=_MOST_PARAMETER_NAME)],
            Annotated[str, Field(max_length=_MOST_PARAMETER)],
        ],
        Field(description="Further parameters for an order plug-in.", max_length=_MOST_PARAMETERS),
    ] = Field(default_factory=dict)
    files: Annotated[SampleFilesSpec, Field(description="Layout of samples in the files.")] = SampleFilesSpec()

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        """Refuse contradictory fields. Raises ValueError with a sentence."""
        for name, needed, value in (
            ("groupSize", SamplerName.STOKER_GROUP_SHUFFLE, self.group_size),
            ("ratio", SamplerName.STOKER_QUALITY_RATIO, self.ratio),
        ):
            if (self.sampler == needed) is (value is None):
                raise ValueError(f"{name} is for {needed}, which needs it: write what the training code gives to it")
        if self.parameters and not self.sampler.startswith(OF_A_PLUGIN):
            raise ValueError("parameters are for order plug-ins: write plugin:NAME as the sampler, or leave them out")
        if self.sampler in _NUMPY and self.seed < 0:
            raise ValueError(f"{self.sampler} takes no negative seed: write the one that the training code has")
        if self.ranks is not None and (self.rank or 0) + self.ranks_per_pod > self.ranks:
            raise ValueError(f"rank and ranksPerPod go beyond the {self.ranks} ranks: ranks counts those of all pods")
        return self

    def for_workers(self, workers: int) -> "Sampling":
        """Return it with the number of ranks for ``workers`` pods, if it has none."""
        return self if self.ranks is not None else self.model_copy(update={"ranks": workers * self.ranks_per_pod})

    def for_pod(self, index: int | None) -> "Sampling":
        """Return it with the rank of the pod with this completion index, if it has none."""
        if self.rank is not None:
            return self
        first, most = (index or 0) * self.ranks_per_pod, self.ranks or self.ranks_per_pod
        return self.model_copy(update={"rank": first if first + self.ranks_per_pod <= most else 0})

    def text(self) -> str:
        """Return it as JSON, without defaults."""
        return self.model_dump_json(by_alias=True, exclude_none=True, exclude_defaults=True)

    def plan(self) -> SamplingPlan:
        """Return the plan for the library that computes orders."""
        files = self.files
        return SamplingPlan(
            sampler=sampler_named(self.sampler),
            seed=self.seed,
            epochs=self.epochs,
            batch=self.batch,
            loaders=self.loaders,
            ranks=self.ranks or self.ranks_per_pod,
            rank=self.rank or 0,
            ranks_here=self.ranks_per_pod,
            drop_last=self.drop_last,
            reseeds=None if self.reseed is None else self.reseed is Reseed.EACH_EPOCH,
            files=SampleFiles(
                files.layout,
                files.path.strip("/"),
                files.samples_per_shard,
                files.record_bytes,
                files.header_bytes,
                files.index.strip("/"),
            ),
            dataset=self.dataset,
            group=self.group_size or 1,
            reservoir=self.reservoir,
            parameters=tuple(sorted(self.parameters.items())),
            ratio=Fraction(1 if self.ratio is None else self.ratio).limit_denominator(_MOST_DENOMINATOR),
        )


def parse_sampling_text(text: str) -> Sampling:
    """Parse the annotation's JSON. Raises ValueError with a sentence."""
    if len(text) > MOST_CHARACTERS:
        raise ValueError(
            f"the annotation {names.ANNOTATION_SAMPLING} is {len(text)} characters long, and {MOST_CHARACTERS} are "
            "allowed: shorten files.path"
        )
    try:
        return _Strict.model_validate_json(text)
    except ValidationError as error:
        wrong = f"the annotation {names.ANNOTATION_SAMPLING} is wrong{wrong_at(error)}"
        raise ValueError(f"{wrong}; {_EXAMPLE}") from error


def parse_sampling(value: object, called: str) -> Sampling:
    """Parse a value from JSON or YAML. ``called`` is its name in messages. Raises ValueError."""
    try:
        return _Strict.model_validate(value)
    except ValidationError as error:
        example = f"""write for example {called} '{{"sampler": "torch-distributed", "seed": 42}}'"""
        raise ValueError(f"{called} is wrong{wrong_at(error)}; {example}") from error


def wrong_at(error: ValidationError) -> str:
    """Return the place and the problem of an error, as the end of a sentence."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = ".".join(map(str, first["loc"]))
    what = shortened(str(first["msg"]).removeprefix("Value error, "), 400)
    return (f" at {shortened(place, 100)}" if place else "") + f": {what}"


def read_sampling(attributes: Mapping[str, str]) -> str:
    """Return the sampling in a volume's attributes as JSON. Empty: none, or an invalid one.

    Refuses nothing: a pod starts with any hints. Never raises.
    """
    text = attributes.get(names.CSI_ATTRIBUTE_SAMPLING, "")
    try:
        return parse_sampling_text(text).text() if text else ""
    except ValueError:
        return ""


class _Strict(Sampling):
    """Refuses unknown fields: no API server checks this value."""

    model_config = Sampling.model_config | {"extra": "forbid"}

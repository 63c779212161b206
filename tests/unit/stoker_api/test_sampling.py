"""A sampling is parsed into a valid value, or rejected with a message."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker_api import names
from stoker_api.jobs.sampling import MOST_CHARACTERS, Sampling, parse_sampling_text, read_sampling
from stoker_orders.predictors.samplers import PluginSampler, SamplerName
from stoker_orders.sampling_plan import SampleFiles, SampleLayout, SamplingPlan
from tests.support.cases import cases


def test_what_is_said_becomes_a_plan() -> None:
    text = """{"sampler": "accelerate-seedable", "seed": 42, "epochs": 90, "batch": 64, "loaders": 8, "ranks": 16,
               "ranksPerPod": 8, "rank": 8, "dropLast": true, "reseed": "Never", "dataset": "imagenet",
               "files": {"layout": "Records", "path": "/all.bin", "recordBytes": 3073, "headerBytes": 16}}"""
    assert parse_sampling_text(text).plan() == SamplingPlan(
        SamplerName.ACCELERATE_SEEDABLE,
        seed=42,
        epochs=90,
        batch=64,
        loaders=8,
        ranks=16,
        rank=8,
        ranks_here=8,
        drop_last=True,
        reseeds=False,
        files=SampleFiles(SampleLayout.RECORDS, "all.bin", 1, 3073, 16),
        dataset="imagenet",
    )


@pytest.mark.parametrize("layout", ["Shards", "Records"])
def test_an_index_says_how_samples_lie(layout: str) -> None:
    said = Sampling.model_validate({"files": {"layout": layout, "path": "x", "index": "/x.idx"}})
    assert said.plan().files == SampleFiles(SampleLayout(layout), "x", index="x.idx")
    assert said.plan().files.described_by == "x.idx"


@cases(
    "said, sentence",
    ({"sampler": "torch-magic"}, "wrong at sampler"),
    ({"sampler": "plugin:"}, "wrong at sampler"),
    ({"sampler": "plugin:No Name"}, "wrong at sampler"),
    ({"sampler": "plugin:" + "a" * 41}, "wrong at sampler"),
    ({"parameters": {"deal": "turns"}}, "parameters are for order plug-ins"),
    ({"sampler": "plugin:mine", "parameters": {"deal": "x" * 201}}, "wrong at parameters.deal"),
    ({"sampler": "plugin:mine", "parameters": {"deal": 1}}, "wrong at parameters.deal"),
    ({"sampler": "plugin:mine", "parameters": {str(number): "" for number in range(17)}}, "wrong at parameters"),
    ({"seed": 1.5}, "wrong at seed"),
    ({"sede": 1}, "wrong at sede: Extra inputs are not permitted"),
    ({"sampler": "numpy-permutation", "seed": -1}, "takes no negative seed"),
    ({"sampler": "stoker-group-shuffle"}, "groupSize is for stoker-group-shuffle, which needs it"),
    ({"sampler": "stoker-quality-ratio", "ratio": 0}, "wrong at ratio"),
    ({"ratio": 0.5}, "ratio is for stoker-quality-ratio"),
    ({"files": {"layout": "FileList"}}, "files.path is needed for FileList"),
    ({"files": {"layout": "Records", "path": "x"}}, "files.recordBytes is needed"),
    ({"files": {"path": "x", "index": "i"}}, "files.index is for Shards and Records"),
    ({"files": {"layout": "Shards", "samplesPerShard": 9, "index": "i"}}, "files.index says how samples lie"),
    ({"files": {"layout": "Records", "path": "x", "recordBytes": 9, "index": "i"}}, "files.index says how"),
    ({"files": {"layout": "Shards", "index": "../i"}}, "files.index must lie in the Dataset"),
    ({"files": {"path": "a/../../b"}}, "must lie in the Dataset"),
    ({"ranks": 4, "rank": 4}, "rank and ranksPerPod go beyond the 4 ranks"),
    ({"epochs": 10**9}, "wrong at epochs"),
    (["seed"], "is wrong"),
    ({"dataset": "x" * MOST_CHARACTERS}, "characters long"),
)
def test_what_is_wrong_is_refused_with_a_sentence(said: object, sentence: str) -> None:
    with pytest.raises(ValueError, match=names.ANNOTATION_SAMPLING) as refused:
        parse_sampling_text(json.dumps(said))
    assert sentence in str(refused.value)


def test_the_sampler_of_a_plug_in_is_planned_with_its_parameters() -> None:
    sampling = parse_sampling_text('{"sampler": "plugin:mine", "seed": -1, "parameters": {"b": "2", "a": "1"}}')
    plan = sampling.plan()
    assert (plan.sampler, plan.plugin) == (PluginSampler("mine"), "mine")
    assert plan.parameters == (("a", "1"), ("b", "2"))
    assert parse_sampling_text(sampling.text()).plan() == plan


@given(st.text(max_size=200))
def test_no_text_breaks_a_mount(text: str) -> None:
    assert isinstance(read_sampling({names.CSI_ATTRIBUTE_SAMPLING: text}), str)


@given(st.integers(0, 2**53 - 1), st.integers(1, 100), st.sampled_from(SamplerName))
def test_what_is_written_is_read_again(seed: int, ranks: int, sampler: SamplerName) -> None:
    group = 16 if sampler is SamplerName.STOKER_GROUP_SHUFFLE else None
    ratio = 0.5 if sampler is SamplerName.STOKER_QUALITY_RATIO else None
    sampling = Sampling(sampler=sampler, seed=seed, ranks=ranks, group_size=group, ratio=ratio)
    assert parse_sampling_text(sampling.text()).plan() == sampling.plan()


def test_workers_have_their_ranks_by_their_index() -> None:
    sampling = Sampling(ranks_per_pod=4).for_workers(3)
    assert [sampling.for_pod(index).rank for index in (None, 0, 2)] == [0, 0, 8]
    assert sampling.ranks == 12


def test_an_index_beyond_the_ranks_is_no_rank() -> None:
    assert Sampling(ranks=2).for_pod(7).rank == 0

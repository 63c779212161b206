"""Annotations on pods: parsed values, and messages for invalid ones."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker_api import names
from stoker_api.datasets.dataset import SchedulingMode
from stoker_api.jobs.pod_annotations import (
    MOST_CHARACTERS,
    MOST_DATASETS,
    DatasetRequest,
    PodRequest,
    Refusal,
    format_datasets,
    parse_datasets,
    parse_request,
)
from tests.support.cases import cases


def sentence(text: str) -> str:
    result = parse_datasets(text, "vision")
    assert isinstance(result, Refusal)
    return result.sentence


@cases(
    "text, requests",
    a_name_without_namespace_is_one_of_the_pods_own=(
        "imagenet:/data, team-b/coco:/coco/",
        (DatasetRequest("vision", "imagenet", "/data"), DatasetRequest("team-b", "coco", "/coco")),
    ),
    an_entry_may_name_a_version=(
        "coco@1f3a5c7e9b2d:/coco, imagenet",
        (DatasetRequest("vision", "coco", "/coco", "1f3a5c7e9b2d"), DatasetRequest("vision", "imagenet")),
    ),
    an_entry_without_path_asks_for_the_gate_only=("imagenet", (DatasetRequest("vision", "imagenet", None),)),
    paths_with_a_common_beginning_are_not_inside_one_another=(
        "a:/data, b:/data2",
        (DatasetRequest("vision", "a", "/data"), DatasetRequest("vision", "b", "/data2")),
    ),
)
def test_datasets_are_read_from_the_annotation(text: str, requests: tuple[DatasetRequest, ...]) -> None:
    assert parse_datasets(text, "vision") == requests


@pytest.mark.parametrize(
    ("text", "piece"),
    [
        ("", "is empty"),
        (" , ", "is empty"),
        ("Image_Net:/data", "'Image_Net:/data'"),
        ("a/b/c:/data", "'a/b/c:/data'"),
        (":/data", "':/data'"),
        ("imagenet:data", "'imagenet:data'"),
        ("imagenet@:/data", "12 to 64 digits"),
        ("imagenet@latest:/data", "12 to 64 digits"),
        ("imagenet@1f3a5c7:/data", "12 to 64 digits"),
        (f"imagenet@{'a' * 65}:/data", "12 to 64 digits"),
        ("imagenet:", "'imagenet:'"),
        ("imagenet:/a/../b", "'imagenet:/a/../b'"),
        ("imagenet:/a:/b", "'imagenet:/a:/b'"),
        ("imagenet:/", "whole file system"),
        ("imagenet://", "whole file system"),
        ("coco@1f3a5c7e9b2d:/old, coco:/new", "two versions"),
        ("a:/data, b:/data/", "vision/a and vision/b both have the mount path /data"),
        ("a:/data, b:/data/b", "overlap"),
        pytest.param("," * (MOST_CHARACTERS + 1), "32769 characters long", id="too-long"),
    ],
)
def test_the_sentence_holds_the_piece_that_is_wrong(text: str, piece: str) -> None:
    assert piece in sentence(text)


def test_the_refining_annotations_are_parsed() -> None:
    annotations = {
        names.ANNOTATION_DATASETS: "a:/data",
        names.ANNOTATION_SCHEDULING: "Require",
        names.ANNOTATION_MAX_WAIT: "1m30s",
        names.ANNOTATION_CONTAINERS: "trainer, evaluator",
    }
    assert parse_request(annotations, "vision") == PodRequest(
        (DatasetRequest("vision", "a", "/data"),), SchedulingMode.REQUIRE, 90.0, frozenset({"trainer", "evaluator"})
    )


@cases("annotation, value", (names.ANNOTATION_SCHEDULING, "Always"), (names.ANNOTATION_MAX_WAIT, "ten minutes"))
def test_a_wrong_refinement_is_refused_with_its_value(annotation: str, value: str) -> None:
    result = parse_request({names.ANNOTATION_DATASETS: "a:/data", annotation: value}, "vision")
    assert isinstance(result, Refusal)
    assert annotation in result.sentence
    assert value in result.sentence


def test_as_many_datasets_as_are_allowed_are_taken_and_one_more_is_refused() -> None:
    pieces = [f"a:/{index}" for index in range(MOST_DATASETS)]
    assert not isinstance(parse_datasets(",".join(pieces), "vision"), Refusal)
    assert "names 21 Datasets, and 20 are allowed" in sentence(",".join([*pieces, "a:/more"]))


LABELS = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,8}[a-z0-9])?", fullmatch=True)


@given(st.lists(st.builds(DatasetRequest, LABELS, LABELS), min_size=1, max_size=5), LABELS)
def test_what_is_formatted_parses_back(requests: list[DatasetRequest], namespace: str) -> None:
    versions = {one.key: "0123456789abcdef" if len(one.name) % 2 else "" for one in requests}
    placed = tuple(
        DatasetRequest(one.namespace, one.name, f"/mnt/{index}", versions[one.key])
        for index, one in enumerate(requests)
    )
    assert parse_datasets(format_datasets(placed), namespace) == placed


@given(st.text(max_size=60))
def test_any_text_gives_requests_or_a_sentence(text: str) -> None:
    result = parse_datasets(text, "vision")
    assert isinstance(result, Refusal) or result

"""The annotations on pods: what parses to what, and the sentence for what does not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker_api import names
from stoker_api.dataset import SchedulingMode
from stoker_operator.core.annotations import (
    MOST_CHARACTERS,
    MOST_DATASETS,
    DatasetRequest,
    PodRequest,
    Refusal,
    format_datasets,
    parse_datasets,
    parse_request,
)


def sentence(text: str) -> str:
    result = parse_datasets(text, "vision")
    assert isinstance(result, Refusal)
    return result.sentence


def test_a_name_without_namespace_is_one_of_the_pods_own() -> None:
    assert parse_datasets("imagenet:/data, team-b/coco:/coco/", "vision") == (
        DatasetRequest("vision", "imagenet", "/data"),
        DatasetRequest("team-b", "coco", "/coco"),
    )


def test_an_entry_may_name_a_version() -> None:
    assert parse_datasets("coco@1f3a5c7e9b2d:/coco, imagenet", "vision") == (
        DatasetRequest("vision", "coco", "/coco", "1f3a5c7e9b2d"),
        DatasetRequest("vision", "imagenet"),
    )


def test_one_dataset_at_two_versions_is_refused() -> None:
    assert "two versions" in sentence("coco@1f3a5c7e9b2d:/old, coco:/new")


def test_an_entry_without_path_asks_for_the_gate_only() -> None:
    assert parse_datasets("imagenet", "vision") == (DatasetRequest("vision", "imagenet", None),)


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
    ],
)
def test_the_sentence_holds_the_piece_that_is_wrong(text: str, piece: str) -> None:
    assert piece in sentence(text)


def test_two_datasets_at_one_path_are_refused_with_both_names() -> None:
    assert sentence("a:/data, b:/data/").startswith("vision/a and vision/b are both to be mounted at /data")


def test_one_dataset_inside_another_is_refused() -> None:
    assert "inside one another" in sentence("a:/data, b:/data/b")


def test_paths_with_a_common_beginning_are_not_inside_one_another() -> None:
    assert not isinstance(parse_datasets("a:/data, b:/data2", "vision"), Refusal)


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


@pytest.mark.parametrize(
    ("annotation", "value"), [(names.ANNOTATION_SCHEDULING, "Always"), (names.ANNOTATION_MAX_WAIT, "ten minutes")]
)
def test_a_wrong_refinement_is_refused_with_its_value(annotation: str, value: str) -> None:
    result = parse_request({names.ANNOTATION_DATASETS: "a:/data", annotation: value}, "vision")
    assert isinstance(result, Refusal)
    assert annotation in result.sentence
    assert value in result.sentence


def test_as_many_datasets_as_are_allowed_are_taken_and_one_more_is_refused() -> None:
    pieces = [f"a:/{index}" for index in range(MOST_DATASETS)]
    assert not isinstance(parse_datasets(",".join(pieces), "vision"), Refusal)
    result = parse_datasets(",".join([*pieces, "a:/more"]), "vision")
    assert isinstance(result, Refusal)
    assert "names 21 Datasets, and 20 are allowed" in result.sentence


def test_an_annotation_that_is_too_long_is_refused_unread() -> None:
    result = parse_datasets("," * (MOST_CHARACTERS + 1), "vision")
    assert isinstance(result, Refusal)
    assert "32769 characters long" in result.sentence


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

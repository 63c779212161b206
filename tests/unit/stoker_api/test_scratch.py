"""Sizes of scratch layers: in the annotation, in a TrainingJob, and as text."""

import pytest
from pydantic import ValidationError

from stoker_api.jobs.pod_annotations import DatasetRequest, Refusal, format_datasets, parse_datasets
from stoker_api.jobs.scratch import LEAST_SCRATCH, MOST_SCRATCH, parse_scratch
from stoker_api.jobs.trainingjob import JobDataset


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("20Gi", 20 * 1024**3),
        ("64Mi", LEAST_SCRATCH),
        ("8Ti", MOST_SCRATCH),
        ("100000001", 99999744),
    ],
)
def test_a_size_is_whole_blocks(text: str, size: int) -> None:
    assert parse_scratch(text) == size


@pytest.mark.parametrize(
    "text", ["", "0", "-1Gi", "63Mi", "9Ti", "1e999999999", "20 Gi", "20GB", "nan", "9" * 1000, "∞"]
)
def test_any_other_text_is_refused_with_the_limits(text: str) -> None:
    with pytest.raises(ValueError, match="must be a size from") as error:
        parse_scratch(text)
    assert len(str(error.value)) < 200
    with pytest.raises(ValidationError):
        JobDataset(name="imagenet", mount_path="/data", scratch=text)


@pytest.mark.parametrize(
    "text",
    ["imagenet:/data,scratch=20Gi", "imagenet:/data , scratch = 20Gi", "imagenet:/data,scratch=20Gi, coco:/coco"],
)
def test_an_option_belongs_to_the_dataset_before_it(text: str) -> None:
    requests = parse_datasets(text, "vision")
    assert not isinstance(requests, Refusal)
    assert requests[0] == DatasetRequest("vision", "imagenet", "/data", scratch="20Gi")
    assert all(not request.scratch for request in requests[1:])
    assert parse_datasets(format_datasets(requests), "other") == requests


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("scratch=20Gi", "must follow a Dataset with a path"),
        ("imagenet,scratch=20Gi", "must follow a Dataset with a path"),
        ("imagenet:/data,scratch=1Gi,scratch=1Gi", "must follow a Dataset with a path, once"),
        ("imagenet:/data,scratch=20", "must be a size from 64.0 MiB"),
        ("imagenet:/data,size=20Gi", "'size=20Gi' in the annotation stoker.dev/datasets is no option"),
        ("imagenet:/a,scratch=1Gi, imagenet:/b", "has different scratch at its paths"),
        (",".join(["scratch=1"] * 3000), "are allowed"),
    ],
)
def test_a_misplaced_option_is_refused(text: str, part: str) -> None:
    result = parse_datasets(text, "vision")
    assert isinstance(result, Refusal)
    assert part in result.sentence


def test_a_path_may_contain_an_equals_sign() -> None:
    assert parse_datasets("imagenet:/data/a=b", "vision") == (DatasetRequest("vision", "imagenet", "/data/a=b"),)

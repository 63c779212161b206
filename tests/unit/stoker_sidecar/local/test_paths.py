"""Where a mount keeps its things."""

from pathlib import Path
from typing import Any

import pytest

from stoker_api.dataset import Source
from stoker_sidecar.local.mount_spec import home_paths, run_paths

CACHE = Path("/cache")


def home(uri: str = "s3://bucket/set", **fields: Any) -> Path:
    return home_paths(CACHE, Source.model_validate({"uri": uri, **fields})).folder


def test_a_person_can_tell_which_source_a_folder_is_of() -> None:
    assert home("s3://bucket/images/train/").name.startswith("bucket-images-train-")


@pytest.mark.parametrize(
    "other",
    [
        {"uri": "s3://bucket/set2"},
        {"endpoint": "http://other:9000"},
        {"include": ["a/**"]},
        {"exclude": ["a/**"]},
        {"uri": "file:///bucket/set"},
    ],
)
def test_what_shows_other_files_has_another_folder(other: dict[str, Any]) -> None:
    assert home(**other) != home()


@pytest.mark.parametrize("same", [{"uri": "s3://bucket/set/"}, {"region": "eu-west-1"}])
def test_what_shows_the_same_files_shares_them(same: dict[str, Any]) -> None:
    assert home(**same) == home()


def test_a_folder_of_any_name_makes_a_plain_one() -> None:
    assert "/" not in home("file:///data/%20a%20b").name


def test_the_sockets_have_short_paths_however_long_the_caches_is() -> None:
    home = home_paths(CACHE / ("x" * 200), Source(uri="s3://bucket"))
    assert len(str(run_paths(Path("/run/user/1000/stoker-mounts"), home).fetcher_socket)) < 108

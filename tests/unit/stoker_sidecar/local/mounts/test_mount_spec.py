"""The request of `stoker mount`, especially its version, and the folders that it uses."""

from pathlib import Path
from typing import Any

import pytest

from stoker_api.datasets.dataset_source import Source
from stoker_api.node_caches.node_dataset_status import ListingResult
from stoker_sidecar.errors import MountRefused
from stoker_sidecar.linux.files import replace_text
from stoker_sidecar.local.commands.mounting import spec_of
from stoker_sidecar.local.mounts.mount_paths import HomePaths, run_paths
from stoker_sidecar.local.mounts.mount_spec import MountSpec, home_paths
from stoker_sidecar.local.options.mount_options import MountOptions, parse
from tests.support.cases import cases

CACHE = Path("/cache")
OLD, LISTED = "a1" * 32, "a2" * 32


@pytest.fixture
def home(tmp_path: Path) -> HomePaths:
    """Make a home with two downloaded versions. The second is the result of the last listing."""
    made = HomePaths(tmp_path)
    for digest in (OLD, LISTED):
        manifest = made.dataset.version(digest).manifest
        manifest.parent.mkdir(parents=True)
        manifest.touch()
    replace_text(made.dataset.listing, ListingResult(id="1", version=LISTED).model_dump_json(by_alias=True))
    return made


def spec(home: HomePaths, *words: str) -> MountSpec:
    options = parse(["mount", "s3://bucket", "/data", *words], {}, 0)
    assert isinstance(options, MountOptions)
    return spec_of(options, home, Path("/data"))


def test_the_source_is_listed_anew_each_time(home: HomePaths) -> None:
    asked = [spec(home).listing_id for _ in range(2)]
    assert all(asked)
    assert asked[0] != asked[1]


def test_without_refresh_the_last_list_is_mounted(home: HomePaths) -> None:
    assert (spec(home, "--no-refresh").version, spec(home, "--no-refresh").listing_id) == (LISTED, "")


def test_without_refresh_and_without_a_list_the_source_is_listed(tmp_path: Path) -> None:
    assert spec(HomePaths(tmp_path), "--no-refresh").listing_id


def test_a_version_is_found_by_the_beginning_of_its_digest(home: HomePaths) -> None:
    assert spec(home, "--version", "a1").version == OLD


@pytest.mark.parametrize(("beginning", "count"), [("a", 2), ("b", 0)])
def test_a_beginning_must_fit_one_version(home: HomePaths, beginning: str, count: int) -> None:
    with pytest.raises(MountRefused, match=f"fits {count} of the versions"):
        spec(home, "--version", beginning)


def test_what_the_command_asks_for_reaches_the_fetcher(home: HomePaths) -> None:
    asked = spec(home, "--warm", "--quota", "1Ki", "--bandwidth-limit", "2Ki")
    (dataset,) = MountSpec.model_validate_json(asked.model_dump_json(by_alias=True)).plan(OLD).spec.datasets
    assert (dataset.version, dataset.eager, dataset.quota_bytes, dataset.bytes_per_second) == (OLD, True, 1024, 2048)


@pytest.mark.parametrize(("option", "wanted"), [((), True), (("--no-last-files",), False)])
def test_the_last_files_are_fetched_unless_it_is_said_otherwise(
    home: HomePaths, option: tuple[str, ...], wanted: bool
) -> None:
    assert spec(home, *option).last_files is wanted


def home_of(uri: str = "s3://bucket/set", **fields: Any) -> Path:
    return home_paths(CACHE, Source.model_validate({"uri": uri, **fields})).folder


def test_a_person_can_tell_which_source_a_folder_is_of() -> None:
    assert home_of("s3://bucket/images/train/").name.startswith("bucket-images-train-")


@cases(
    "other",
    {"uri": "s3://bucket/set2"},
    {"endpoint": "http://other:9000"},
    {"include": ["a/**"]},
    {"exclude": ["a/**"]},
    {"uri": "file:///bucket/set"},
)
def test_what_shows_other_files_has_another_folder(other: dict[str, Any]) -> None:
    assert home_of(**other) != home_of()


@pytest.mark.parametrize("same", [{"uri": "s3://bucket/set/"}, {"region": "eu-west-1"}])
def test_what_shows_the_same_files_shares_them(same: dict[str, Any]) -> None:
    assert home_of(**same) == home_of()


def test_a_folder_of_any_name_makes_a_plain_one() -> None:
    assert "/" not in home_of("file:///data/%20a%20b").name


def test_the_sockets_have_short_paths_however_long_the_caches_is() -> None:
    home = home_paths(CACHE / ("x" * 200), Source(uri="s3://bucket"))
    assert len(str(run_paths(Path("/run/user/1000/stoker-mounts"), home).fetcher_socket)) < 108

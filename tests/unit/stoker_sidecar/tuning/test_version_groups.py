"""Sorting the files of a version by the rules, with limits of CPU and bytes."""

import itertools
import zlib

import pytest

from stoker_sidecar.tuning.core.grouping import CompiledChoice, FileGrouping
from stoker_sidecar.tuning.source import TuningChoice
from stoker_sidecar.tuning.version_groups import MOST_SECONDS, group_files
from stoker_sidecar.version.layout import VersionPaths
from stoker_sidecar.version.manifest import Manifest
from stoker_sidecar.wire.fetcher_hints import FileKnobs
from stoker_tuning.documents.assembly import read_profile
from stoker_tuning.rules.facts import Surroundings
from tests.support.versions import VersionFolder

FILES = {f"{folder}/{number}.{suffix}": b"x" for folder in ("a", "b") for number in range(600) for suffix in "tj"}
DOCUMENT = """
apiVersion: stoker.dev/v1alpha1
kind: TuningProfile
metadata: {name: mine}
spec:
  rules:
    - id: tees
      conditions: [{type: file_pattern, value: "b/*.t"}]
      actions: [{type: prioritize, parameters: {warm_order: first}}]
"""
_AHEAD = "prefetch, parameters: {kernel_read_ahead: 4Mi"


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> VersionPaths:
    folder = tmp_path_factory.mktemp("version") / "digest"
    VersionFolder(folder, FILES)
    return VersionPaths(folder)


def _grouping(document: str = DOCUMENT) -> FileGrouping:
    return FileGrouping(CompiledChoice(TuningChoice(read_profile(document).rules)), [Surroundings()])


def _no_rest(seconds: float) -> None:
    """Do not wait."""


def test_each_file_has_the_knobs_of_its_rules(paths: VersionPaths) -> None:
    found = group_files(paths, _grouping(), sleep=_no_rest)
    groups, manifest = zlib.decompress(found.groups), Manifest.open(paths.manifest)
    by_path = {path.decode(): found.knobs[groups[entry.ino]] for path, entry in manifest.walk() if not entry.is_dir}
    manifest.close()
    first = {path for path, knobs in by_path.items() if knobs == FileKnobs(warm_rank=0)}
    assert first == {path for path in FILES if path.startswith("b/") and path.endswith(".t")}
    assert (set(by_path), found.left) == (set(FILES), "")


def test_how_many_files_each_rule_applies_to_is_told(paths: VersionPaths) -> None:
    assert group_files(paths, _grouping(), sleep=_no_rest).matched[0] == 600


def test_rules_that_apply_to_no_file_lead_to_no_groups(paths: VersionPaths) -> None:
    found = group_files(paths, _grouping(DOCUMENT.replace("b/*.t", "c/*")), sleep=_no_rest)
    assert (found.knobs, found.groups) == ((), b"")


def test_it_rests_three_times_as_long_as_it_works(paths: VersionPaths) -> None:
    rests: list[float] = []
    ticks = itertools.count()
    group_files(paths, _grouping(), cpu=lambda: next(ticks) * 0.001, sleep=rests.append)
    assert sum(rests) == pytest.approx(3 * next(ticks) * 0.001, rel=0.3)


def test_rules_that_take_too_long_leave_the_rest_of_the_files_as_ever(paths: VersionPaths) -> None:
    ticks = itertools.count()
    found = group_files(paths, _grouping(), cpu=lambda: next(ticks) * MOST_SECONDS / 100, sleep=_no_rest)
    assert "of CPU for the others" in found.left
    assert zlib.decompress(found.groups)[-1] == 0 if found.groups else True


def test_it_ends_soon_when_nobody_waits_for_it(paths: VersionPaths) -> None:
    assert "files" in group_files(paths, _grouping(), ended=lambda: True, sleep=_no_rest).left


@pytest.mark.parametrize(("glob", "size"), [("**", 4 * 2**20), ("b/*.t", None)])
def test_a_mount_reads_ahead_by_a_rule_where_it_is_about_all_files(
    paths: VersionPaths, glob: str, size: int | None
) -> None:
    document = DOCUMENT.replace("b/*.t", glob).replace("prioritize, parameters: {warm_order: first", _AHEAD)
    assert group_files(paths, _grouping(document), sleep=_no_rest).read_ahead == size


def test_files_that_were_not_looked_at_want_the_read_ahead_that_there_is_anyway(paths: VersionPaths) -> None:
    document = DOCUMENT.replace("b/*.t", "**").replace("prioritize, parameters: {warm_order: first", _AHEAD)
    ticks = itertools.count()
    found = group_files(paths, _grouping(document), cpu=lambda: next(ticks) * MOST_SECONDS / 100, sleep=_no_rest)
    assert found.read_ahead is None

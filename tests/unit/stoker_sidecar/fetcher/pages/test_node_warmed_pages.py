"""Warmed files go into the page cache too if requested, once per request."""

from array import array

import pytest

from stoker_api.datasets.cache_memory import WarmedPages
from stoker_sidecar.fetcher.ondisk.path_selection import PathSelection, SelectionStep
from stoker_sidecar.fetcher.pages.mounted_pages import _marks
from stoker_sidecar.wire.fetcher_protocol import PAGED_BYTES
from tests.support.cache_node import CacheNodeUnderTest, fill
from tests.support.waiting import eventually

SIZE = 1000
FILES = {f"f{folder}/{number}": b"x" * SIZE for folder in range(2) for number in range(4)}
TOTAL = SIZE * len(FILES)


def _paged(node: CacheNodeUnderTest) -> int:
    return sum(count.value for count in node.node.progress().counts if count.name == PAGED_BYTES)


async def _until_done(node: CacheNodeUnderTest, request: str) -> WarmedPages:
    def done() -> bool:
        found = node.status().pages
        return found is not None and (found.request, found.done) == (request, True)

    await eventually(done)
    return node.status().pages or WarmedPages()


async def test_all_of_it_is_brought_once_it_is_warm_and_again_when_it_is_asked_for_again(
    cache_node: CacheNodeUnderTest,
) -> None:
    fill(cache_node.store, FILES)
    digest = await cache_node.warm(pages="1")
    assert await _until_done(cache_node, "1") == WarmedPages(request="1", bytes=TOTAL, read_bytes=TOTAL, done=True)
    await cache_node.configure(listingId="1", version=digest, eager=True, pages="2")
    await _until_done(cache_node, "2")
    assert _paged(cache_node) == 2 * TOTAL


async def test_only_what_the_paths_name_is_brought(cache_node: CacheNodeUnderTest) -> None:
    fill(cache_node.store, FILES)
    digest = await cache_node.list()
    await cache_node.configure(listingId="1", version=digest, eager=True, warmPaths=["f1/"], pages="1")
    assert (await _until_done(cache_node, "1")).read_bytes == TOTAL // 2


async def test_nothing_is_brought_where_nobody_asks(cache_node: CacheNodeUnderTest) -> None:
    fill(cache_node.store, FILES)
    await cache_node.warm()
    assert (cache_node.status().pages, _paged(cache_node)) == (None, 0)


async def test_who_no_longer_asks_has_no_figures(cache_node: CacheNodeUnderTest) -> None:
    fill(cache_node.store, FILES)
    digest = await cache_node.warm(pages="1")
    await _until_done(cache_node, "1")
    await cache_node.configure(listingId="1", version=digest, eager=True)
    await eventually(lambda: cache_node.status().pages is None)


def _selection(numbers: bytes, *steps: SelectionStep) -> PathSelection:
    ranges = array("q", [number for step in steps for number in step])
    return PathSelection("d", numbers, ranges, len(numbers) - numbers.count(0), 30, (), 0)


@pytest.mark.parametrize("here", [b"\0\1\1\1", b"\0\1\0\1"])
def test_files_are_marked_in_the_order_of_the_paths(here: bytes) -> None:
    marks = _marks(_selection(b"\0\1\1\2", SelectionStep(2, 3, 3), SelectionStep(1, 1, 2)), here)
    assert [[ino for ino, mark in enumerate(part) if mark] for part in marks] == [[3]] + [
        [ino] for ino in (1, 2) if here[ino]
    ]


def test_many_files_are_marked_in_few_parts() -> None:
    numbers = b"\0" + b"\1" * 1000
    marks = _marks(_selection(numbers, SelectionStep(1, 1, 1000)), numbers)
    assert len(marks) == 8
    assert sum(mark.count(1) for mark in marks) == 1000

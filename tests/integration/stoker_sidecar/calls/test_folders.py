"""A big folder is listed completely and once, from any position, despite parallel readers and killed processes."""

import random
from collections.abc import Iterator
from contextlib import closing
from itertools import islice

import pytest

from tests.support.directory import Directory
from tests.support.mount_kinds import Shown, shown

pytestmark = pytest.mark.root
_NAMES = [f"{number:05}.jpg" for number in range(20_000)]  # several of the kernel's buffers for directory entries
_KINDS = ("fuse", "overlay", "native")


@pytest.fixture(scope="module", params=_KINDS)
def big(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    with shown(request.param, tmp_path_factory.mktemp("big"), dict.fromkeys(_NAMES, b"")) as version:
        yield version


def test_every_name_comes_once_and_again_after_rewinding(big: Shown) -> None:
    with closing(Directory(big.path)) as folder:
        first = list(folder)
        folder.rewind()
        assert sorted(first) == _NAMES
        assert list(folder) == first


def test_a_position_leads_to_the_same_name_in_any_order(big: Shown) -> None:
    following: dict[int, str] = {}
    with closing(Directory(big.path)) as folder:
        position = folder.tell()
        for number, name in enumerate(folder):
            if number % 997 == 0:
                following[position] = name
            position = folder.tell()
        for position in random.Random(3).sample(sorted(following), len(following)):
            folder.seek(position)
            assert next(folder) == following[position]


def test_two_readers_of_a_folder_do_not_disturb_each_other(big: Shown) -> None:
    with closing(Directory(big.path)) as one, closing(Directory(big.path)) as other:
        assert len(list(islice(one, 7000))) == 7000
        assert sorted(other) == _NAMES
        assert len(list(one)) == len(_NAMES) - 7000


@pytest.mark.parametrize("big", ["fuse"], indirect=True)
def test_a_listing_goes_on_where_it_was_after_the_server_was_killed(big: Shown) -> None:
    with closing(Directory(big.path)) as folder:
        names = list(islice(folder, 5000))
        big.keeper.kill_server()
        names += folder
    assert sorted(names) == _NAMES

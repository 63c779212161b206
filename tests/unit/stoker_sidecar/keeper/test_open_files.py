"""The limit of open files, which container runtimes set low, in processes that tenants can reach."""

import resource
from collections.abc import Callable

import pytest

from stoker_operator.main import raise_open_files as raise_in_operator
from stoker_sidecar.linux.spawn import raise_open_files as raise_in_keeper

INFINITE = resource.RLIM_INFINITY
STARTED = [
    ((1024, 4096), 4096),
    ((1024, 524288), 65536),
    ((1024, INFINITE), 65536),
    ((100_000, 524288), 100_000),
    ((INFINITE, INFINITE), INFINITE),
]


@pytest.mark.parametrize("raise_open_files", [raise_in_keeper, raise_in_operator], ids=["keeper", "operator"])
@pytest.mark.parametrize(("before", "after"), STARTED)
def test_the_soft_limit_is_raised_within_bounds(
    monkeypatch: pytest.MonkeyPatch, raise_open_files: Callable[[], None], before: tuple[int, int], after: int
) -> None:
    limits = {resource.RLIMIT_NOFILE: before}
    monkeypatch.setattr(resource, "getrlimit", limits.__getitem__)
    monkeypatch.setattr(resource, "setrlimit", limits.__setitem__)
    raise_open_files()
    assert limits[resource.RLIMIT_NOFILE] == (after, before[1])

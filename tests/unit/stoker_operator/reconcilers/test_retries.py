"""The back-off of each key."""

import pytest

from stoker_kube.errors import Forbidden, KubeError, Unavailable
from stoker_operator.reconcilers.retries import LAST, LAST_TEMPORARY, Retries

REFUSED = Forbidden(403, "Forbidden", "no")
DOWN = Unavailable(503, "Down", "down")


async def attempt(retries: Retries, key: str, now: float, error: Exception | None = None) -> bool:
    """Let ``retries`` attempt it, and tell whether it was tried."""
    tried = []

    async def act() -> None:
        tried.append(key)
        if error:
            raise error

    await retries.attempt(key, now, act)
    return bool(tried)


@pytest.mark.expected_logs("trying again")
async def test_what_failed_waits_and_what_did_not_goes_on() -> None:
    retries = Retries("test", rand=lambda: 1.0)
    await attempt(retries, "odd", 100.0, REFUSED)
    assert not await attempt(retries, "odd", 101.0)
    assert await attempt(retries, "good", 101.0)
    assert await attempt(retries, "odd", 102.0)


@pytest.mark.parametrize(("error", "longest"), [(REFUSED, LAST), (DOWN, LAST_TEMPORARY), (ValueError("odd"), LAST)])
@pytest.mark.expected_logs("trying again")
async def test_the_wait_doubles_up_to_a_bound(error: Exception, longest: float) -> None:
    retries, now, waits = Retries("test", rand=lambda: 1.0), 0.0, []
    for _ in range(12):
        await attempt(retries, "odd", now, error)
        due = retries.next_due(now)
        assert due is not None
        waits.append(due - now)
        now = due
    assert (waits[0], waits[1], waits[-1]) == (2.0, 4.0, longest)


@pytest.mark.expected_logs("trying again")
async def test_a_success_ends_the_wait() -> None:
    retries = Retries("test", rand=lambda: 1.0)
    await attempt(retries, "odd", 0.0, REFUSED)
    await attempt(retries, "odd", 2.0)
    assert retries.next_due(2.0) is None


@pytest.mark.expected_logs("trying again")
async def test_what_was_raised_is_given_back() -> None:
    async def act() -> None:
        raise KubeError(418, "Teapot", "no")

    assert isinstance(await Retries("test", rand=lambda: 1.0).attempt("odd", 0.0, act), KubeError)


@pytest.mark.expected_logs("trying again")
async def test_a_key_that_nobody_tries_any_more_is_not_waited_for() -> None:
    retries = Retries("test", rand=lambda: 1.0)
    await attempt(retries, "gone", 0.0, REFUSED)
    assert retries.next_due(3.0) is None

"""When a child is restarted."""

from itertools import accumulate

import pytest

from stoker_sidecar.keeper.watchdog import PATIENT, PROMPT, QUICK, RestartHistory, RestartPolicy, Silence, after_end
from stoker_sidecar.keeper.zygotes import ZYGOTE
from stoker_sidecar.wire.zygote_orders import LOOK_SECONDS
from tests.support.cases import cases

_POLICY = RestartPolicy(stable_after=30.0, longest_delay=10.0)


def _delays(lives: list[float], policy: RestartPolicy = _POLICY) -> list[float]:
    steps = accumulate(lives, lambda step, lived: after_end(step[0], lived, policy), initial=(RestartHistory(), 0.0))
    return [delay for _, delay in steps][1:]


def test_the_first_end_is_answered_at_once() -> None:
    assert _delays([0.0]) == [0.0]


def test_a_child_that_keeps_dying_waits_longer_and_longer_up_to_the_limit() -> None:
    assert _delays([0.0] * 10) == [0.0, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0]


def test_a_stable_run_wipes_the_history() -> None:
    assert _delays([0.0, 0.0, 0.0, 30.0, 0.0])[3:] == [0.0, 0.1]


def test_all_restarts_are_counted_however_long_it_lived() -> None:
    history = RestartHistory()
    for lived in (0.0, 100.0, 0.0):
        history, _ = after_end(history, lived, _POLICY)
    assert history.restarts == 3


@cases("lived, policy", a_fuse_server_each_second=(1.0, QUICK), a_fetcher_twice_a_second=(0.4, PROMPT))
def test_what_is_killed_now_and_then_always_comes_back_at_once(lived: float, policy: RestartPolicy) -> None:
    assert set(_delays([lived] * 200, policy)) == {0.0}


def test_an_agent_that_dies_every_second_does_not_spin() -> None:
    assert _delays([1.0] * 20, PATIENT)[-1] == 10.0


def test_a_fuse_server_that_dies_of_every_request_does_not_spin() -> None:
    assert _delays([0.0] * 40, QUICK)[-1] == 5.0


@pytest.mark.parametrize("policy", [PATIENT, PROMPT, QUICK, ZYGOTE])
def test_the_keeper_starts_another_within_a_second_of_seeing_that_one_was_stopped(policy: RestartPolicy) -> None:
    killed_after = LOOK_SECONDS  # at most, if it was just asked to fork. Otherwise the kernel reports it at once
    _, waits = after_end(RestartHistory(), policy.stable_after, policy)
    assert killed_after + waits <= 1.0


def _after(ticks: int, silence: Silence) -> Silence:
    for _ in range(ticks):
        silence = silence.tick()
    return silence


def test_a_child_with_a_heartbeat_is_never_hung() -> None:
    assert not _after(5, _after(5, Silence()).heard()).is_hung(QUICK)


def test_a_child_that_falls_silent_is_hung() -> None:
    assert _after(6, Silence().heard()).is_hung(QUICK)


def test_a_fuse_server_that_never_gets_ready_is_hung_after_its_time_to_start() -> None:
    assert [_after(20, Silence()).is_hung(QUICK), _after(21, Silence()).is_hung(QUICK)] == [False, True]


def test_a_command_that_knows_no_heartbeats_is_left_alone() -> None:
    assert not _after(10_000, Silence()).is_hung(PATIENT)

"""The number of lines that may be read: a rate, and a burst."""

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from stoker_sidecar.helpers.reports.core.allowance import Allowance, NodeAllowance
from stoker_sidecar.helpers.reports.pod_socket import LINES_AT_ONCE, PodSocket, bind_socket


def test_a_burst_is_taken_at_once_up_to_its_limit() -> None:
    allowance = Allowance(10.0, 5.0)
    assert [allowance.take(100.0) for _ in range(6)] == [True] * 5 + [False]


def test_time_gives_it_back_up_to_the_burst() -> None:
    allowance = Allowance(10.0, 5.0)
    for _ in range(5):
        allowance.take(100.0)
    assert [allowance.take(100.2) for _ in range(3)] == [True, True, False]
    assert [allowance.take(500.0) for _ in range(6)] == [True] * 5 + [False]


def test_a_clock_that_steps_back_gives_nothing() -> None:
    allowance = Allowance(10.0, 1.0)
    assert allowance.take(100.0)
    assert not allowance.take(50.0)


@settings(max_examples=25)
@given(namespaces=st.integers(1, 30), pods=st.integers(1, 200), seconds=st.integers(1, 4))
def test_many_pods_of_one_namespace_take_no_share_of_another(namespaces: int, pods: int, seconds: int) -> None:
    names = [str(number) for number in range(namespaces + 1)]
    node = NodeAllowance(1000.0, 2000.0)
    node.share_among(names)
    for now in range(seconds):
        for _ in range(20 * pods):
            node.take("0", 100.0 + now)
        share = int(500 / len(names))
        assert all(node.take(name, 100.0 + now) for name in names[1:] for _ in range(share))


def test_all_lines_of_a_second_are_bounded_however_many_namespaces_there_are() -> None:
    node = NodeAllowance(1000.0, 2000.0)
    for round_ in range(50):  # pods come and go, and shares change
        node.share_among(str(number) for number in range(round_ + 1))
        for number in range(round_ + 1):
            while node.take(str(number), 100.0):
                pass
    assert sum(node.take("49", 101.0) for _ in range(2000)) <= 510
    assert not node.take("unknown", 101.0)


async def test_a_line_for_which_the_node_has_no_room_costs_its_pod_nothing(tmp_path: Path) -> None:
    empty, now = NodeAllowance(0.0, 0.0), [100.0]
    pod = PodSocket(bind_socket(tmp_path), empty, "a", lambda: now[0], lambda: None)
    for _ in range(int(LINES_AT_ONCE) + 1):
        pod._read()
        pod._resting = None
    assert all(pod._own.take(now[0]) for _ in range(int(LINES_AT_ONCE)))
    pod.close()

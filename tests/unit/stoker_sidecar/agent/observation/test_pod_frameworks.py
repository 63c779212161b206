"""The frameworks of pods, from the libraries of their processes."""

from collections.abc import Callable, Collection

from stoker_sidecar.agent.observation.pod_frameworks import PodFrameworks
from tests.fakes.volumes import Clock

TORCH = "/torch/lib/libtorch_cpu.so"


def frameworks(libraries: dict[int, str]) -> tuple[PodFrameworks, Clock, list[int]]:
    clock, looked = Clock(), list[int]()
    return PodFrameworks(_recorded(libraries, looked), clock), clock, looked


def _recorded(libraries: dict[int, str], looked: list[int]) -> Callable[[int], Collection[str]]:
    def look(pid: int) -> Collection[str]:
        looked.append(pid)
        return [libraries[pid]] if pid in libraries else []

    return look


def test_one_of_a_pods_processes_is_enough() -> None:
    found, _, _ = frameworks({8: TORCH})
    found.look({"a": [7, 8], "b": [9]}, ["a", "b"])
    assert found.found == {"a": "pytorch"}


def test_what_is_known_is_not_looked_at_again() -> None:
    found, clock, looked = frameworks({8: TORCH})
    found.look({"a": [8]}, ["a"])
    clock.now += 1000.0
    found.look({"a": [8]}, ["a"])
    assert looked == [8]


def test_what_tells_nothing_is_looked_at_once_a_minute_and_not_for_ever() -> None:
    found, clock, looked = frameworks({})
    for _ in range(10_000):
        found.look({"a": [8]}, ["a"])
        clock.now += 1.0
    assert len(looked) == 30


def test_a_pod_with_many_processes_and_many_pods_take_bounded_time() -> None:
    found, _, looked = frameworks({})
    found.look({str(pod): range(100) for pod in range(100)}, [str(pod) for pod in range(100)])
    assert len(looked) == 4 * 16


def test_a_pod_that_is_gone_is_forgotten() -> None:
    found, _, _ = frameworks({8: TORCH})
    found.look({"a": [8]}, ["a"])
    found.look({}, [])
    assert found.found == {}

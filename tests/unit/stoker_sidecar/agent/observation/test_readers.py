"""The pods of reading processes."""

import os

import pytest

from stoker_sidecar.agent.observation import readers
from stoker_sidecar.agent.observation.readers import ReaderProcesses
from tests.fakes.volumes import Clock

POD = "5e1c9f0a-0000-4000-8000-000000000001"


def test_the_processes_of_pods_that_read_lately_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(readers, "cgroups_of", lambda pid: f"0::/kubepods/pod{POD}/c" if pid == 4_000_000 else "")
    seen = ReaderProcesses(os.getpid(), clock)
    assert seen.who([4_000_000, 4_000_001, os.getpid()], [POD])[4_000_000] == POD
    assert seen.processes() == {POD: [4_000_000]}
    clock.now += 31.0
    assert seen.processes() == {}

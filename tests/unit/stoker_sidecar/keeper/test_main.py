"""What the keeper asks of the OOM killer, in a folder that stands for its cgroup."""

import logging
from pathlib import Path

import pytest

from stoker_sidecar.keeper.main import end_one_process_at_a_time


def test_the_container_is_not_killed_as_a_group(tmp_path: Path) -> None:
    (tmp_path / "memory.oom.group").write_text("1")
    end_one_process_at_a_time(tmp_path)
    assert (tmp_path / "memory.oom.group").read_text() == "0"


def test_a_cgroup_without_groups_is_left_alone(tmp_path: Path) -> None:
    end_one_process_at_a_time(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.expected_logs("out of memory ends the whole sidecar")
def test_a_cgroup_that_refuses_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "memory.oom.group").mkdir()  # as good as read-only, which root would write to
    with caplog.at_level(logging.WARNING):
        end_one_process_at_a_time(tmp_path)
    assert "out of memory ends the whole sidecar" in caplog.text

"""fanotify tells who opened and wrote what, in the marked folders alone."""

import os
import subprocess
from pathlib import Path

import pytest

from bench.truth.fanotify import Watch
from tests.support.waiting import wait_until

pytestmark = pytest.mark.root
_SECONDS = 30.0


def test_opens_and_writes_of_a_marked_folder_are_seen_with_their_process(tmp_path: Path) -> None:
    marked, other = tmp_path / "marked", tmp_path / "other"
    for folder in (marked, other):
        folder.mkdir()
        (folder / "there").write_text("x")
    with Watch([marked]) as watch:
        for folder in (other, marked):
            subprocess.run(["cat", str(folder / "there")], check=True, stdout=subprocess.DEVNULL)
        (marked / "new").write_text("y")
        wait_until(lambda: any(event.written for event in watch.events), _SECONDS)
    assert {event.path for event in watch.events} == {marked / "there", marked / "new"}
    made = [event for event in watch.events if event.path == marked / "new"]
    assert {event.pid for event in made} == {os.getpid()}
    assert {event.session for event in made} == {os.getsid(0)}
    assert any(event.created for event in made)

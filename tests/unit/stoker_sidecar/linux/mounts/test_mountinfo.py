"""Parsing of mountinfo."""

import threading
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker_sidecar.linux.mounts import mountinfo
from stoker_sidecar.linux.mounts.mountinfo import SharedReads, below, layers, parse, parse_line, read_layers
from tests.support.waiting import wait_until

_ROW = "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue"
_TWO_LAYERS = (
    "30 20 8:1 / /pods/a rw shared:7 - ext4 /dev/sda1 rw\n"
    "31 20 0:50 / /pods/ab ro - tmpfs tmpfs rw\n"
    "32 30 0:51 / /pods/a ro shared:8 - fuse.stoker stoker ro\n"
)


def _escape(text: str) -> str:
    return "".join(f"\\{ord(char):03o}" if char in " \t\n\\" else char for char in text)


def test_the_fields_of_the_manual_page_are_read() -> None:
    mount = parse_line(_ROW)
    assert (mount.mount_id, mount.parent_id, mount.device, mount.root, mount.target) == (
        36,
        35,
        "98:0",
        "/mnt1",
        "/mnt2",
    )
    assert (mount.options, mount.shared, mount.fs_type, mount.source) == (("rw", "noatime"), False, "ext3", "/dev/root")


def test_a_row_without_optional_fields_is_read() -> None:
    assert parse_line("36 35 98:0 / /mnt rw - ext4 /dev/sda rw").fs_type == "ext4"


def test_shared_is_found_among_several_optional_fields() -> None:
    assert parse_line("36 35 98:0 / /mnt rw master:3 shared:4 - ext4 /dev/sda rw").shared


def test_a_hyphen_as_target_is_not_taken_for_the_separator() -> None:
    assert parse_line("36 35 98:0 - - - shared:1 - ext4 - rw").target == "-"


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1))
def test_any_target_survives_the_kernels_escapes(target: str) -> None:
    text = f"1 2 0:3 / {_escape('/' + target)} rw - tmpfs tmpfs rw\n"
    assert [mount.target for mount in parse(text)] == ["/" + target]


@pytest.mark.parametrize("row", ["", "36 35", "x 35 98:0 / /mnt rw - ext4 /dev/sda rw", "36 35 98:0 / /mnt rw ext4"])
def test_a_row_that_is_none_is_named_in_the_error(row: str) -> None:
    with pytest.raises(ValueError, match="is not a row of mountinfo"):
        parse_line(row)


def test_layers_come_bottom_first_and_from_that_target_alone() -> None:
    assert [mount.mount_id for mount in layers(parse(_TWO_LAYERS), "/pods/a")] == [30, 32]


def test_below_takes_the_folder_and_what_is_in_it_but_not_its_namesakes() -> None:
    assert [mount.mount_id for mount in below(parse(_TWO_LAYERS), "/pods/a/")] == [30, 32]
    assert len(below(parse(_TWO_LAYERS), "/pods")) == 3


@given(st.text(alphabet="ab/ #\\\n\té", max_size=4))
def test_the_layers_of_one_target_are_those_that_are_found_among_all_mounts(name: str) -> None:
    target = f"/pods/{name}"
    rows = "\n".join(f"{number} 20 0:{number} / {_escape(where)} ro - tmpfs t ro"
                     for number, where in enumerate([target, f"{target}x", "/pods/a", target]))  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mountinfo, "_shared", SharedReads(rows.encode))
        assert read_layers(target) == layers(parse(rows), target)


class SlowFile:
    """A file whose reads block until released. Each read returns its number."""

    def __init__(self) -> None:
        self.reads = 0
        self.let_go = threading.Event()

    def read(self) -> bytes:
        self.reads += 1
        mine = self.reads
        self.let_go.wait(10.0)
        return b"%d" % mine


def started(call: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=call)
    thread.start()
    return thread


def test_callers_that_wait_share_a_read_that_began_after_they_asked() -> None:
    file, seen = SlowFile(), list[bytes]()
    shared = SharedReads(file.read)
    first = started(lambda: seen.append(shared.read()))
    wait_until(lambda: file.reads == 1)
    others = [started(lambda: seen.append(shared.read())) for _ in range(20)]
    wait_until(lambda: shared.waiting == 21)
    file.let_go.set()
    for thread in (first, *others):
        thread.join()
    assert sorted(seen) == [b"1"] + [b"2"] * 20
    assert shared.read() == b"3"


def test_a_read_that_fails_is_tried_by_the_next_caller() -> None:
    answers: list[OSError | bytes] = [OSError("no"), b"rows"]

    def read_now() -> bytes:
        answer = answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return answer

    shared = SharedReads(read_now)
    with pytest.raises(OSError, match="no"):
        shared.read()
    assert shared.read() == b"rows"

"""The libraries of a process, from /proc."""

import mmap
import os
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from stoker_sidecar.agent.observation.pod_frameworks import loaded_libraries, parse_maps


def test_a_library_that_is_mapped_is_told_by_its_path_with_blanks_and_all(tmp_path: Path) -> None:
    library = tmp_path / "my lib" / "libtorch_cpu.so"
    library.parent.mkdir()
    library.write_bytes(bytes(mmap.PAGESIZE))
    with library.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ):
        assert str(library) in loaded_libraries(os.getpid())


def test_a_process_that_is_gone_has_none() -> None:
    assert loaded_libraries(2**22 + 1) == frozenset()


@given(data=st.binary(max_size=500))
def test_whatever_stands_there_is_read(data: bytes) -> None:
    parse_maps(data)


def test_what_is_no_library_is_left_out() -> None:
    lines = b"7f00-7f01 r-xp 00000000 fe:00 1   /bin/python3\n7f01-7f02 rw-p 00000000 00:00 0\n7f02-7f03 [heap]\n"
    assert parse_maps(lines + b"7f03-7f04 r-xp 0 fe:00 2  /lib/libc.so.6\n") == {"/lib/libc.so.6"}

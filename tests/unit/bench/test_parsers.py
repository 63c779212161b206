"""What the benchmarks read out of logs and /proc."""

from pathlib import Path

from bench.machine import file_system
from bench.measure import (
    CoreTicks,
    Memory,
    Peak,
    below,
    parse_cores,
    parse_parent,
    parse_peak,
    parse_rollup,
    parse_ticks,
)
from bench.server import LoggedRequests, Request, parse_log, sent_bytes

_CLIENT = "+0000] 127.0.0.1 AK"
LOG = f"""\
log starts 2026-11-21 10:35:39.848723534 +0000 UTC m=+0.024036926
AK bench [21/November/2026:10:35:40 {_CLIENT} WGDD8UHX s3_GetObject d0/f1.bin /bench/d0/f1.bin 206 - 0 3 0 0 - agent
AK bench [21/November/2026:10:35:41 {_CLIENT} GQU3P081 s3_ListObjectsV2 - /bench?list-type=2&prefix= 200 - 736 0
"""


def test_the_head_of_an_access_log_is_no_request() -> None:
    assert parse_log(LOG.splitlines()) == [Request("s3_GetObject", "d0/f1.bin"), Request("s3_ListObjectsV2", "-")]


def test_a_line_that_is_still_being_written_is_no_request() -> None:
    assert parse_log(["AK bench [21/Nov"]) == []


def test_gets_and_lists_are_counted_apart() -> None:
    asked = LoggedRequests(
        (Request("s3_GetObject", "a"), Request("s3_ListObjectsV2", "-"), Request("s3_GetObject", "a"))
    )
    assert (asked.gets, asked.lists, asked.fetched["a"]) == (2, 1, 2)


STAT = "42 (a (b) c) S 7 42 42 0 -1 4194560 100 0 0 0 70 30 5 6 20 0 1 0 5 6 7"


def test_processor_time_is_found_behind_a_name_with_brackets_and_blanks() -> None:
    assert parse_ticks(STAT) == 70 + 30 + 5 + 6


def test_the_parent_is_found_behind_a_name_with_brackets_and_blanks() -> None:
    assert parse_parent(STAT) == 7


def test_a_tree_holds_children_of_children_and_nobody_else() -> None:
    assert below(2, {1: 0, 2: 1, 3: 2, 4: 3, 5: 1}) == {2, 3, 4}


def test_the_highest_memory_is_given_in_bytes() -> None:
    assert parse_peak("Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t 1 kB\n") == 2048 * 1024


def test_a_process_that_is_ending_has_no_memory() -> None:
    assert parse_peak("Name:\tx\nState:\tZ (zombie)\n") == 0


def test_heads_and_log_lines_are_not_counted_as_sent() -> None:
    # As measured: 100 GETs of 114,660 bytes.
    assert abs(sent_bytes(written=11_601_344, logged=45_096, requests=100) / 11_466_000 - 1) < 0.001


def test_requests_without_a_body_send_nothing() -> None:
    assert sent_bytes(written=1_000, logged=450, requests=1) == 0


def test_memory_is_given_in_bytes() -> None:
    text = "5580-7fff ---p 00000000 00:00 0 [rollup]\nRss:     2048 kB\nPss:     1024 kB\nPss_Anon: 12 kB\n"
    assert parse_rollup(text) == Memory(pss=1024 * 1024, rss=2048 * 1024)


def test_a_peak_sums_its_processes() -> None:
    assert Peak({"a": Memory(1, 3), "b": Memory(2, 4)}).total == Memory(3, 7)


def test_the_deepest_mount_names_the_file_system() -> None:
    mounts = "/dev/a / ext4 rw 0 0\ntmpfs /var/tmp tmpfs rw 0 0\n/dev/b /var xfs rw 0 0\n"
    assert file_system(Path("/var/tmp/x"), mounts) == "tmpfs"


def test_a_mount_with_a_similar_name_is_another() -> None:
    mounts = "/dev/a / ext4 rw 0 0\ntmpfs /var/tm tmpfs rw 0 0\n"
    assert file_system(Path("/var/tmp/x"), mounts) == "ext4"


def test_cores_that_wait_for_a_disk_are_not_busy() -> None:
    assert parse_cores("cpu  10 1 5 80 4 0 1 3 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n") == CoreTicks(20, 104)


def test_the_busy_share_is_that_of_a_span() -> None:
    assert CoreTicks(30, 200).share_since(CoreTicks(20, 100)) == 0.1

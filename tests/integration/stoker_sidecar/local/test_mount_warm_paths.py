"""With `stoker mount --warm PATH...`, these paths are fetched, the rest is read through, and the last row is true."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.s3 import S3Server
from tests.support.stoker_mount import StokerMount

pytestmark = pytest.mark.root
FILES = {f"set/f{folder}/{n:02}.bin": bytes([folder, n]) * 10_000 for folder in range(3) for n in range(8)}
SIZE = 20_000


def _events(said: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in said.splitlines() if line.startswith("{")]


def _came(server: S3Server) -> list[str]:
    return [key for key in server.gets("data") if key.startswith("set/")]


def test_only_the_paths_come_and_the_rest_can_be_read(stoker: StokerMount, server: S3Server) -> None:
    before = len(_came(server))
    last = _events(stoker.mount("-o", "json", "--warm", "f2/", "f0/0[12]*"))[-1]
    came = _came(server)[before:]
    assert sorted(came) == sorted([f"set/f2/{n:02}.bin" for n in range(8)] + ["set/f0/01.bin", "set/f0/02.bin"])
    assert last["paths"] == {
        "files": 10,
        "bytes": 10 * SIZE,
        "warmFiles": 10,
        "warmBytes": 10 * SIZE,
        "unmatched": 0,
        "unmatchedPaths": [],
    }
    assert (stoker.data / "f1/03.bin").read_bytes() == FILES["set/f1/03.bin"]


def test_a_path_that_names_nothing_is_said_in_the_last_line(stoker: StokerMount) -> None:
    said = stoker.mount("--warm", "f9/", "f1/00.bin")
    assert "the paths name 1 file, 19.5 KiB; 1 path names nothing: f9/" in said.splitlines()[-1]


def test_warm_stands_where_one_likes_before_or_behind_url_and_folder(stoker: StokerMount) -> None:
    done = stoker.run("mount", "--warm", "s3://data/set", str(stoker.data), "f1/00.bin", "-o", "json")
    assert _events(done.stdout)[-1]["paths"]["files"] == 1, done.stderr


def test_a_wrong_path_is_refused_before_anything_is_mounted(stoker: StokerMount) -> None:
    done = stoker.run("mount", "s3://data/set", str(stoker.data), "--warm", "/f1")
    assert (done.returncode, stoker.leftovers()) == (2, [])
    assert "the path '/f1' must be below" in done.stderr


@pytest.fixture(scope="module")
def warmed(server: S3Server) -> Iterator[StokerMount]:
    """Fetch all files into a cache, and unmount."""
    with StokerMount(server) as stoker:
        stoker.mount("--warm")
        stoker.umount()
        yield stoker


@pytest.mark.parametrize("options", [(), ("--warm",), ("--warm", "f1"), ("--no-refresh",)])
def test_the_last_row_is_true_where_the_data_was_there_already(warmed: StokerMount, options: tuple[str, ...]) -> None:
    last = _events(warmed.mount("-o", "json", *options))[-1]
    warmed.umount()
    told = {key: last.get(key) for key in ("stage", "warm", "files", "bytes", "warmFiles", "warmBytes")}
    count = len(FILES)
    expected = {"stage": "mounted", "warm": True, "files": count, "bytes": count * SIZE}
    assert told == expected | {"warmFiles": count, "warmBytes": count * SIZE}

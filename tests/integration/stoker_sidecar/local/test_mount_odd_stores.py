"""Mounts of stores with odd keys, refused objects and outages: right files, or a count of skipped ones."""

import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import cycle
from pathlib import Path
from urllib.parse import quote

from tests.support.odd_store import Asked, OddStore, running
from tests.support.s3 import S3Server
from tests.support.stoker_mount import StokerMount

FILES = {f"set/{folder}/{number:02}": f"{folder}{number}".encode() for folder in "amz" for number in range(20)}


@contextmanager
def machine(store: OddStore, **environment: str) -> Iterator[StokerMount]:
    """Run the store, and yield a machine that may mount it. ``environment`` has further variables."""
    with running(store), StokerMount(S3Server(store.endpoint, Path("/dev/null")), 0, **environment) as made:
        yield made


def shown(stoker: StokerMount) -> dict[str, bytes]:
    """Return the contents of all files by path."""
    return {str(path.relative_to(stoker.data)): path.read_bytes() for path in stoker.data.rglob("*") if path.is_file()}


def last(said: str) -> str:
    """Return the last line."""
    return said.strip().splitlines()[-1]


def test_the_last_line_counts_keys_that_cannot_be_files_and_escapes_them() -> None:
    odd = {"set//x": b"1", "set/d/../x": b"2", "set/\x1b[2J//y": b"3", f"set/{'n' * 256}": b"4", "set/a": b"5"}
    with machine(OddStore(FILES | odd)) as stoker:
        line = last(stoker.mount())
        assert len(shown(stoker)) == len(FILES)
        stoker.umount()
    assert '; 5 keys cannot be files and are left out: 1 DotSegment (such as "d/../x"), 2 EmptySegment' in line
    assert "1 FileAndFolder" in line
    assert "1 SegmentTooLong" in line


def test_refused_objects_cost_themselves_and_have_an_exit_code() -> None:
    def refuses(asked: Asked) -> tuple[int, str] | None:
        archived = asked.method == "GET" and asked.key.startswith("set/m/")
        return (403, "InvalidObjectState") if archived else None

    with machine(OddStore(FILES, refuses)) as stoker:
        done = stoker.run("mount", "s3://data/set", str(stoker.data), "--warm", "--strict")
        readable = {path for path in FILES if not path.startswith("set/m/")}
        assert {f"set/{folder}/{path.name}" for folder in "az" for path in (stoker.data / folder).iterdir()} == readable
        assert all((stoker.data / path.removeprefix("set/")).read_bytes() == FILES[path] for path in readable)
        stoker.umount()
    assert done.returncode == 3
    assert "20 of 60 objects cannot be read, such as: s3://data/set/m/" in last(done.stdout + done.stderr)


def test_an_outage_in_the_middle_of_a_listing_costs_no_page_twice() -> None:
    refused = iter(range(6))

    def refuses(asked: Asked) -> tuple[int, str] | None:
        return (503, "SlowDown") if asked.token == "set/m/09" and next(refused, None) is not None else None

    store = OddStore(FILES, refuses, page=10)
    with machine(store) as stoker:
        stoker.mount()
        assert len(shown(stoker)) == len(FILES)
        stoker.umount()
    assert next(refused, None) is None
    assert [asked.token for asked in store.served if not asked.key] == [
        *("", "set/a/09", "set/a/19", "set/m/09", "set/m/19", "set/z/09")
    ]


def test_names_are_right_from_a_server_that_leaves_plus_signs_alone() -> None:
    keys = {f"set/{name}": name.encode() for name in ("C++/a+b c.jpg", "100%.txt", "a%20b.txt", "a b.txt")}
    with machine(OddStore(keys, encode=lambda key: quote(key, safe="/+"))) as stoker:
        stoker.mount()
        assert shown(stoker) == {name.removeprefix("set/"): content for name, content in keys.items()}
        stoker.umount()


def test_names_are_right_in_a_locale_without_utf_8() -> None:
    files = {f"set/{name}": name.encode() for name in ("\u00e9/\u4e2d\u6587", "plain")}
    with machine(OddStore(files), LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0") as stoker:
        done = stoker.run("mount", "s3://data/set", str(stoker.data), "--warm")
        assert shown(stoker) == {path.removeprefix("set/"): content for path, content in files.items()}
        stoker.umount()
    assert done.returncode == 0


def read_on(paths: list[Path], until: float) -> Counter[str]:
    """Read files repeatedly until a time of the monotonic clock. Return the count of each error."""
    errors = Counter[str]()
    for path in cycle(paths):
        if time.monotonic() >= until:
            return errors
        try:
            path.read_bytes()
        except OSError as error:
            errors[str(error.strerror)] += 1
    return errors


def test_a_store_that_denies_every_object_gets_less_than_a_request_per_second() -> None:
    asked = list[float]()

    def refuses(request: Asked) -> tuple[int, str] | None:
        if request.key:
            asked.append(time.monotonic())
        return (403, "AccessDenied") if request.key else None

    keys = [f"set/{folder}/{number:03}" for folder in "abcdefgh" for number in range(50)]
    with machine(OddStore({key: key.encode() for key in keys}, refuses)) as stoker:
        assert stoker.run("mount", "s3://data/set", str(stoker.data)).returncode == 0
        paths = [[stoker.data / key.removeprefix("set/") for key in keys[number::8]] for number in range(8)]
        began = time.monotonic()
        with ThreadPoolExecutor(8) as pool:
            errors = sum(pool.map(partial(read_on, until=began + 20), paths), Counter[str]())
        ended = time.monotonic()
        stoker.umount()
    assert set(errors) == {"Input/output error"}
    assert len(asked) <= ended - began
    assert len([at for at in asked if at >= began + 2]) <= (ended - began) / 2  # eight readers begin at once

"""Packets that the keeper's socket accepts and rejects."""

from pathlib import Path
from typing import Any

import pytest

from stoker_sidecar.errors import ServeError
from stoker_sidecar.keeper.control import parse_key, parse_version
from tests.support.cases import cases

_ROOT = Path("/var/lib/stoker/mnt")
_GOOD = {
    "uid": "0b5c-1",
    "digest": "ab" * 32,
    "manifest": "/cache/manifest.sqlite",
    "version_dir": "/cache",
    "mountpoint": "/var/lib/stoker/mnt/0b5c-1/d",
}


def test_a_serve_request_becomes_a_version() -> None:
    version = parse_version(_GOOD, _ROOT)
    assert (version.uid, version.mountpoint) == ("0b5c-1", Path("/var/lib/stoker/mnt/0b5c-1/d"))


@cases(
    "change, sentence",
    ({"mountpoint": "/etc"}, "mountpoint /etc must lie below /var/lib/stoker/mnt"),
    ({"mountpoint": "/var/lib/stoker/mnt"}, "must lie below"),
    ({"mountpoint": "/var/lib/stoker/mnt/../../../etc"}, "without '..'"),
    ({"manifest": "relative"}, "manifest 'relative' must be an absolute path"),
    ({"version_dir": None}, "version_dir 'None' must be an absolute path"),
    ({"uid": "../x"}, "uid '../x' must have"),
    ({"digest": ""}, "digest '' must have"),
)
def test_a_bad_serve_request_is_refused_with_the_value(change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ServeError, match=sentence):
        parse_version(_GOOD | change, _ROOT)


def test_a_key_needs_both_parts() -> None:
    with pytest.raises(ServeError, match="digest"):
        parse_key({"uid": "a"})

"""Effects of rules on a real mount: warm-up order, cached files, prefetch depth, and reloading of rule files."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from stoker_sidecar.linux.mounts import mountinfo
from stoker_sidecar.linux.mounts.fuse_device import FS_TYPE, READ_AHEAD
from tests.support.asked_plugins import install_example
from tests.support.s3 import S3Server
from tests.support.stoker_mount import SECONDS, StokerMount
from tests.support.waiting import wait_until

pytestmark = pytest.mark.root
CHUNK = 8 * 1024 * 1024
FILES = {f"set/{folder}/{number:02}": os.urandom(20_000) for folder in ("data", "model") for number in range(40)}
FILES |= {"set/large.bin": os.urandom(CHUNK) * 7}
RULES = """
apiVersion: stoker.dev/v1alpha1
kind: TuningProfile
metadata: {name: mine}
spec:
  rules:
    - id: the-rule
      conditions: [{type: file_pattern, value: "%s"}]
      actions: [{type: %s, parameters: {%s}}]
"""


def rules(stoker: StokerMount, glob: str, action: str, parameters: str) -> Path:
    path = stoker.folder / "rules.yaml"
    path.write_text(RULES % (glob, action, parameters))
    return path


def folders_of_gets(server: S3Server, since: int) -> list[str]:
    """Return the folders in the order of the first requests for their files."""
    keys = server.gets("data")[since:]
    return list(dict.fromkeys(key.split("/")[1] for key in keys if key.count("/") == 2))


def test_the_model_is_warmed_up_before_data_that_comes_first_by_name(stoker: StokerMount, server: S3Server) -> None:
    before = len(server.gets("data"))
    path = rules(stoker, "model/*", "prioritize", "warm_order: first")
    events = stoker.mount("--warm", "--bandwidth-limit", "20M", "--tuning", str(path), "-o", "json").splitlines()
    assert folders_of_gets(server, before) == ["model", "data"]
    assert json.loads(events[-1])["tuning"]["matched"]["the-rule"] == 40


def test_what_is_not_to_be_cached_is_read_through(stoker: StokerMount, server: S3Server) -> None:
    path = rules(stoker, "model/*", "cache", "should_cache: false")
    stoker.mount("--warm", "--tuning", str(path))
    for key, body in FILES.items():
        assert (stoker.data / key.removeprefix("set/")).read_bytes() == body
    kept = {path.parent.name for path in stoker.cache.glob("*/cache/datasets/*/versions/*/tree/*/*")}
    assert kept == {"data"}


@pytest.mark.parametrize(("parameters", "chunks"), [("prefetch_size: 0", 2), ("prefetch_size: 64Mi", 7)])
def test_as_much_as_a_rule_says_is_ahead_of_a_reader(
    stoker: StokerMount, server: S3Server, parameters: str, chunks: int
) -> None:
    stoker.mount("--tuning", str(rules(stoker, "*.bin", "prefetch", parameters)))
    wait_until(lambda: "the-rule" in last_report(stoker).get("matched", {}), SECONDS)
    before = len(server.gets("data"))
    with (stoker.data / "large.bin").open("rb", buffering=0) as file:
        for offset in (0, 3 * CHUNK):  # prefetched files were requested before the second
            assert os.pread(file.fileno(), 100, offset) == FILES["set/large.bin"][offset : offset + 100]
    wait_until(lambda: len(server.gets("data")) - before >= chunks, SECONDS)
    assert len(server.gets("data")) - before == chunks


def test_a_changed_file_is_in_force_without_a_new_mount_and_a_bad_one_is_told(stoker: StokerMount) -> None:
    path = rules(stoker, "model/*", "prioritize", "warm_order: first")
    stoker.mount("--tuning", str(path))
    wait_until(lambda: last_report(stoker).get("generation") == 1, SECONDS)
    rules(stoker, "data/*", "prioritize", "warm_order: late")
    wait_until(lambda: last_report(stoker).get("generation") == 2, SECONDS)
    path.write_text("nonsense")
    wait_until(lambda: "line 1" in last_report(stoker).get("trouble", ""), SECONDS)
    assert last_report(stoker)["generation"] == 2


def test_a_wrong_file_is_refused_before_anything_is_mounted(stoker: StokerMount) -> None:
    path = rules(stoker, "model/*", "prioritize", "warm_odrer: first")
    refused = stoker.run("mount", "s3://data/set", str(stoker.data), "--tuning", str(path))
    assert refused.returncode == 2
    assert "line 9" in refused.stderr
    assert "did you mean warm_order?" in refused.stderr
    assert not stoker.leftovers()


def last_report(stoker: StokerMount) -> dict[str, Any]:
    """Return the mount agent's report about its rules."""
    (report,) = stoker.runs.glob("*/report.json")
    found: dict[str, Any] = json.loads(report.read_text())["tuning"]
    return found


def read_aheads(stoker: StokerMount) -> list[int]:
    """Return the kernel's read-ahead of the FUSE mounts, in KiB."""
    mounts = mountinfo.below(mountinfo.read(), str(stoker.cache))
    devices = {mount.device for mount in mounts if mount.fs_type == FS_TYPE}
    return [int(Path(f"/sys/class/bdi/{device}/read_ahead_kb").read_text()) for device in devices]


def test_the_kernel_reads_as_far_ahead_on_the_mount_as_a_rule_says_and_as_ever_without(stoker: StokerMount) -> None:
    path = rules(stoker, "**", "prefetch", "kernel_read_ahead: 1Mi")
    stoker.mount("--tuning", str(path))
    wait_until(lambda: read_aheads(stoker) == [1024], SECONDS)
    rules(stoker, "**", "prefetch", "prefetch_size: 0")
    wait_until(lambda: read_aheads(stoker) == [READ_AHEAD // 1024], SECONDS)


def test_a_version_that_is_mounted_again_is_put_into_the_page_cache_as_a_rule_says(stoker: StokerMount) -> None:
    path = rules(stoker, "model/*", "prefetch", "page_cache_prefetch: true")
    stoker.mount("--warm")
    stoker.run("umount", str(stoker.data))
    stoker.mount("--tuning", str(path))
    wait_until(lambda: "MiB are in the page cache" in stoker.log(), SECONDS)
    assert "not read into the page cache" not in stoker.log()  # as without the right to read the memory size


def test_plug_ins_that_are_named_tell_the_framework_and_their_rules_count(server: S3Server, tmp_path: Path) -> None:
    source, site = tmp_path / "source", tmp_path / "site"
    for folder in (source, site):
        folder.mkdir()
    install_example(site)
    (source / "last.pdparams").write_bytes(b"weights")
    (source / "train.png").write_bytes(b"1")
    python_path = os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")])
    with StokerMount(server, PYTHONPATH=python_path) as stoker:
        stoker.mount("--plugins", "paddle", "--plugins", "jax", url=f"file://{source}")
        wait_until(lambda: last_report(stoker).get("framework") == "paddle", SECONDS)
        wait_until(lambda: last_report(stoker).get("matched", {}).get("paddle-checkpoints") == 1, SECONDS)
        assert "it was mounted without --observe" in stoker.run("top", "--mount", str(stoker.data)).stderr
        stoker.umount()
        assert not stoker.leftovers()


def test_a_plug_in_that_is_not_installed_is_refused_before_anything_is_mounted(stoker: StokerMount) -> None:
    refused = stoker.run("mount", "s3://data/set", str(stoker.data), "--plugins", "nobodys")
    assert refused.returncode == 2
    assert "--plugins nobodys: is not installed; there are huggingface, jax, pytorch, tensorflow" in refused.stderr
    assert not stoker.leftovers()

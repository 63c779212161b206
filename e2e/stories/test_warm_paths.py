"""Only some paths of a Dataset are warmed, by kubectl and by the CLI. Pods start on these, and read the rest too."""

import hashlib

import pytest

from e2e.cluster import CommandFailedError
from e2e.support import manifests
from e2e.support.world import Home, World, condition, node_rows

FOLDERS, EACH, SIZE = 4, 20, 10_000
FILES = {
    f"part-{folder}/{n:02}.bin": bytes([folder, n]) * (SIZE // 2) for folder in range(FOLDERS) for n in range(EACH)
}


def test_paths_are_warmed_and_pods_start_on_them_and_read_the_rest(world: World, home: Home) -> None:
    bucket = home.bucket()
    bucket.put(FILES)
    home.dataset("pictures", bucket, cache={"replicas": 1}, warm={"paths": ["part-2/", "part-0/0*"]})

    ready = home.ready("pictures")
    named = ready["status"]["warmPaths"]
    assert (named["files"], named["warmFiles"], named["warmBytes"]) == (30, 30, 30 * SIZE)
    assert (ready["status"]["files"], ready["status"]["cachedPercent"]) == (FOLDERS * EACH, "100%")
    assert condition(ready, "PathsFound") == "True"
    assert "PathsWarm" in {row["phase"] for row in node_rows(ready).values()}

    command = "sha256sum /data/part-2/00.bin /data/part-3/07.bin"
    world.apply(manifests.pod(home.namespace, "reader", "pictures:/data", command, scheduling="Require"))
    world.finished("reader", home.namespace)
    assert manifests.sums(world.logs("reader", home.namespace)) == {
        f"/data/{path}": hashlib.sha256(FILES[path]).hexdigest() for path in ("part-2/00.bin", "part-3/07.bin")
    }


def test_the_cli_warms_paths_waits_for_them_and_says_which_name_nothing(world: World, home: Home) -> None:
    bucket = home.bucket()
    bucket.put(FILES)
    home.dataset("pictures", bucket, cache={"replicas": 1}, warm={"policy": "Manual"})
    home.ready("pictures")

    said = world.stoker("warm", "pictures", "part-1/", "--wait", "--timeout", "2m", "-n", home.namespace)
    assert "100 %" in said
    assert home.ready("pictures")["status"]["warmPaths"]["warmFiles"] == EACH
    with pytest.raises(CommandFailedError, match="no files match 'trian/' in this version"):
        world.stoker("warm", "pictures", "part-1/", "trian/", "--wait", "--timeout", "2m", "-n", home.namespace)
    assert "'trian/'" in world.wait_event("pictures", home.namespace, "PathNotFound")

    world.stoker("warm", "pictures", "--all", "--wait", "--timeout", "2m", "-n", home.namespace)
    whole = home.until("pictures", lambda it: not it["status"].get("warmPaths"))
    assert sum(row["warmFiles"] for row in node_rows(whole).values()) == FOLDERS * EACH

"""The command `stoker tuning plugins --nodes`."""

import json

import pytest
from click.testing import CliRunner, Result

from stoker_api.meta import ObjectMeta
from stoker_api.node_caches.nodecache import NodeCache
from stoker_api.node_caches.nodecache_status import NodeCacheStatus, NodeOrderPlugin, NodePlugin
from stoker_cli.main import main
from stoker_cli.tuning import plugins as tuning_plugins
from tests.unit.stoker_cli.builders import connect_to

CACHES = [
    NodeCache(
        metadata=ObjectMeta(name="node-1"),
        status=NodeCacheStatus(
            plugins=(NodePlugin(name="paddle", package="stoker-paddle 0.1.0", rules=1),),
            order_plugins=(
                NodeOrderPlugin(name="numpy-legacy", package="stoker-numpy-legacy 0.1.0"),
                NodeOrderPlugin(name="mine", message="it is not [b]installed\x1b[2J"),
            ),
        ),
    ),
    NodeCache(metadata=ObjectMeta(name="node-2")),
]


@pytest.fixture
def caches(monkeypatch: pytest.MonkeyPatch) -> list[NodeCache]:
    found = list(CACHES)

    class KnownNodes:
        async def node_caches(self) -> list[NodeCache]:
            return found

    connect_to(monkeypatch, KnownNodes(), tuning_plugins)
    return found


def plugins(*words: str) -> Result:
    return CliRunner().invoke(main, ["tuning", "plugins", "--nodes", *words])


@pytest.mark.usefixtures("caches")
def test_plug_ins_of_both_kinds_are_shown_by_node_with_errors() -> None:
    head, *lines = plugins().stdout.splitlines()
    assert head.split() == ["NODE", "KIND", "PLUGIN", "FROM", "RULES", "TEMPLATES", "WRONG"]
    assert [line.split()[:3] for line in lines] == [
        ["node-1", "framework", "paddle"],
        ["node-1", "order", "numpy-legacy"],
        ["node-1", "order", "mine"],
    ]
    assert lines[-1].endswith("it is not [b]installed?[2J")


@pytest.mark.usefixtures("caches")
def test_json_has_the_rows_of_the_nodes() -> None:
    rows = json.loads(plugins("-o", "json").stdout)
    assert [(row["kind"], row["name"], row["message"]) for row in rows][1] == ("order", "numpy-legacy", "")


def test_without_plug_ins_the_message_names_the_setting(caches: list[NodeCache]) -> None:
    caches.clear()
    assert "sidecar.orderPlugins" in plugins().stderr


@pytest.mark.usefixtures("caches")
def test_nodes_exclude_a_file() -> None:
    refused = plugins("model.bin")
    assert (refused.exit_code, "leave FILE and --pod out" in refused.stderr) == (1, True)

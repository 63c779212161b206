"""What `stoker tuning plugins --nodes` shows of the plug-ins of a cluster's nodes."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from click.testing import CliRunner, Result

from stoker_api.meta import ObjectMeta
from stoker_api.nodecache import NodeCache, NodeCacheStatus, NodeOrderPlugin, NodePlugin
from stoker_cli import tuning_plugins
from stoker_cli.cluster import Target
from stoker_cli.main import main

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

    @asynccontextmanager
    async def connect(_: Target) -> AsyncIterator[KnownNodes]:
        yield KnownNodes()

    monkeypatch.setattr(tuning_plugins, "connect", connect)
    return found


def plugins(*words: str) -> Result:
    return CliRunner().invoke(main, ["tuning", "plugins", "--nodes", *words])


@pytest.mark.usefixtures("caches")
def test_both_kinds_of_plug_ins_are_shown_by_node_with_what_is_wrong() -> None:
    head, *lines = plugins().stdout.splitlines()
    assert head.split() == ["NODE", "KIND", "PLUGIN", "FROM", "RULES", "TEMPLATES", "WRONG"]
    assert [line.split()[:3] for line in lines] == [
        ["node-1", "framework", "paddle"],
        ["node-1", "order", "numpy-legacy"],
        ["node-1", "order", "mine"],
    ]
    assert lines[-1].endswith("it is not [b]installed?[2J")


@pytest.mark.usefixtures("caches")
def test_scripts_get_the_rows_as_nodes_have_them() -> None:
    rows = json.loads(plugins("-o", "json").stdout)
    assert [(row["kind"], row["name"], row["message"]) for row in rows][1] == ("order", "numpy-legacy", "")


def test_without_any_it_says_what_would_name_them(caches: list[NodeCache]) -> None:
    caches.clear()
    assert "sidecar.orderPlugins" in plugins().stderr


@pytest.mark.usefixtures("caches")
def test_a_file_is_for_plug_ins_that_are_installed_here() -> None:
    refused = plugins("model.bin")
    assert (refused.exit_code, "leave FILE and --pod out" in refused.stderr) == (1, True)

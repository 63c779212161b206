"""Plug-in rules in `stoker tuning explain POD`."""

from stoker_api.meta import ObjectMeta
from stoker_api.node_caches.node_workload import NodeWorkload
from stoker_api.node_caches.nodecache import NodeCache
from stoker_api.node_caches.nodecache_status import NodeCacheStatus, NodePlugin
from stoker_cli.tuning.pod_rules import rules_in_use
from stoker_tuning.documents.assembly import plugin_document
from stoker_tuning.frameworks.answers import PluginAnswer
from stoker_tuning.vocabulary import RuleLayer

ROW = NodeWorkload(pod="vision/trainer-0", datasets=("vision/digits",))
ODD = plugin_document(PluginAnswer("odd", (), {}, ({"id": "shards", "actions": [{"type": "prefetch"}]},), ()))


def node(*plugins: NodePlugin) -> NodeCache:
    return NodeCache(metadata=ObjectMeta(name="a"), status=NodeCacheStatus(plugins=plugins))


def layers(cache: NodeCache, *installed: object) -> list[RuleLayer]:
    (in_use,) = rules_in_use(cache, ROW, {}, installed)  # type: ignore[arg-type]
    return [rule.origin.layer for rule in in_use.rules if rule.id == "shards"]


def test_plug_in_rules_in_force_on_the_node_are_in_the_framework_layer() -> None:
    assert layers(node(NodePlugin(name="odd", rules=1)), ODD) == [RuleLayer.FRAMEWORK]


def test_installed_plug_in_rules_not_in_force_on_the_node_are_ignored() -> None:
    assert layers(node(), ODD) == []
    assert layers(node(NodePlugin(name="odd", rules=1, message="it hangs")), ODD) == []


def test_plug_in_rules_that_are_not_installed_here_are_a_note() -> None:
    (in_use,) = rules_in_use(node(NodePlugin(name="odd", package="stoker-odd 1", rules=2)), ROW, {})
    assert in_use.notes == (
        "2 rules of the plug-in odd are not included. Install stoker-odd 1 here, and use --plugins.",
    )

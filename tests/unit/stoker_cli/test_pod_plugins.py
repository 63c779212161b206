"""Which rules of plug-ins `stoker tuning explain POD` counts: those that the pod's node has in force."""

from stoker_api.meta import ObjectMeta
from stoker_api.node_workload import NodeWorkload
from stoker_api.nodecache import NodeCache, NodeCacheStatus, NodePlugin
from stoker_cli.pod_rules import rules_in_use
from stoker_tuning.documents.plugin_documents import plugin_document
from stoker_tuning.frameworks.answers import PluginAnswer
from stoker_tuning.vocabulary import RuleLayer

ROW = NodeWorkload(pod="vision/trainer-0", datasets=("vision/digits",))
ODD = plugin_document(PluginAnswer("odd", (), {}, ({"id": "shards", "actions": [{"type": "prefetch"}]},), ()))


def node(*plugins: NodePlugin) -> NodeCache:
    return NodeCache(metadata=ObjectMeta(name="a"), status=NodeCacheStatus(plugins=plugins))


def layers(cache: NodeCache, *installed: object) -> list[RuleLayer]:
    (in_use,) = rules_in_use(cache, ROW, {}, installed)  # type: ignore[arg-type]
    return [rule.origin.layer for rule in in_use.rules if rule.id == "shards"]


def test_rules_that_a_node_has_in_force_count_in_the_layer_of_frameworks() -> None:
    assert layers(node(NodePlugin(name="odd", rules=1)), ODD) == [RuleLayer.FRAMEWORK]


def test_rules_that_are_installed_here_and_not_in_force_there_do_not_count() -> None:
    assert layers(node(), ODD) == []
    assert layers(node(NodePlugin(name="odd", rules=1, message="it hangs")), ODD) == []


def test_rules_that_are_not_installed_here_are_told() -> None:
    (in_use,) = rules_in_use(node(NodePlugin(name="odd", package="stoker-odd 1", rules=2)), ROW, {})
    assert in_use.notes == (
        "2 rules of the plug-in odd (stoker-odd 1) count there and are not in this: "
        "install its package here, and ask with --plugins.",
    )

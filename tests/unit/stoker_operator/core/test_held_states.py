"""Cached node states equal states that are computed again."""

from collections import Counter
from collections.abc import Iterable

from hypothesis import given, settings
from hypothesis import strategies as st

from stoker_api.node_caches.node_dataset_status import NodeError
from stoker_api.node_caches.nodecache import NodeCache
from stoker_operator.core.incremental.node_state_cache import NodeStateCache
from stoker_operator.core.views.node_states import StateSummary, SummaryGroup
from tests.support.plain_node_states import PlainNodeStates
from tests.unit.stoker_operator.builders import SIZE, listed, make_cache, make_dataset, report
from tests.unit.stoker_operator.builders import given as entry_of

DATASET = listed(make_dataset())
UID = DATASET.metadata.uid
BROKEN = NodeError(reason="SourceForbidden", message="403", temporary=False)
# Possible reports of a node: nothing, the entry alone, a part, all of it, or an error.
SAID = st.one_of(st.none(), st.just("told"), st.sampled_from([0, 5, SIZE]), st.just("broken"))


def cache_of(node: str, said: str | int | None) -> NodeCache:
    if said is None:
        return make_cache(node)
    if said == "told":
        return make_cache(node, (entry_of(DATASET), None))
    row = report(DATASET, error=BROKEN) if said == "broken" else report(DATASET, int(said))
    return make_cache(node, (entry_of(DATASET), row))


def counted(groups: Iterable[SummaryGroup]) -> Counter[StateSummary]:
    found: Counter[StateSummary] = Counter()
    for summary, nodes in groups:
        assert nodes > 0
        found[summary] += nodes
    return found


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abcd"), SAID, st.booleans()), max_size=20))
def test_nodes_that_say_the_same_are_counted_together(steps: list[tuple[str, str | int | None, bool]]) -> None:
    kept, caches = NodeStateCache(), dict[str, NodeCache]()
    for node, said, gone in steps:
        if gone:
            caches.pop(node, None)
        else:
            caches[node] = cache_of(node, said)
        kept.update(caches, [node])
    assert counted(kept.groups(UID)) == counted(PlainNodeStates(caches).groups(UID))

"""Watches this node's own NodeCache and hands the plan over."""

import logging

from pydantic import ValidationError

from stoker_api.nodecache import NodeCache
from stoker_kube.api import Kube
from stoker_kube.resources import NODE_CACHES
from stoker_kube.watch import EventType, WatchEvent, watch
from stoker_sidecar.agent.plan import NodePlan

log = logging.getLogger(__name__)


async def follow_node_cache(kube: Kube, node_name: str, plan: NodePlan) -> None:
    """Until cancelled. With no NodeCache it waits: the operator makes it."""
    async for event in watch(kube, NODE_CACHES, field_selector=f"metadata.name={node_name}"):
        if event.type is EventType.SYNCED:
            plan.set_synced()
        else:
            _take(event, plan)


def _take(event: WatchEvent, plan: NodePlan) -> None:
    if event.type is EventType.DELETED:
        return plan.lose_node_cache()
    try:
        cache = NodeCache.model_validate(event.object)
    except ValidationError as error:
        # An operator of another version, or a person; the last plan that could be read goes on.
        return log.error("the plan of this node cannot be read and is left as it was: %s", error)
    return plan.take_node_cache(cache)

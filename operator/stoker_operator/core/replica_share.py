"""Replicas as a share of the nodes: how many that comes to, without following each node that comes or goes."""

from stoker_api.dataset import Cache, Dataset

_SLACK = 10  # per cent of the nodes, one at least: what may come and go before a number falls


def asks_for_share(cache: Cache) -> bool:
    """Tell whether the replicas are a percentage."""
    return isinstance(cache.replicas, str) and cache.replicas != "all"


def share_of(replicas: str, nodes: int) -> int:
    """Return what a percentage comes to, rounded up."""
    return -(-int(replicas.removesuffix("%")) * nodes // 100)


def steady_share(replicas: str, nodes: int, last: int | None) -> int:
    """Return how many of ``nodes`` should hold it.

    It grows at once. It falls below ``last`` (None: not known) only when that would be too many for a tenth more nodes,
    too: nodes that go for a moment, or come and go at a bound, move no data.
    """
    now = share_of(replicas, nodes)
    if last is None or last <= now:
        return now
    slack = max(1, nodes * _SLACK // 100)
    return last if last <= min(nodes, share_of(replicas, nodes + slack)) else now


def share_now(dataset: Dataset, nodes: int) -> int | None:
    """Return what a Dataset's share of ``nodes`` comes to; None where its replicas are none."""
    replicas = dataset.spec.cache.replicas
    if not isinstance(replicas, str) or replicas == "all":
        return None
    return steady_share(replicas, nodes, last_share(dataset))


def last_share(dataset: Dataset) -> int | None:
    """Return what its share came to the last time; None where the spec was another one then."""
    status = dataset.status
    return status.share_of_nodes if status.observed_generation == dataset.metadata.generation else None


def limited_sentence(share: int | None, most: int | None, class_name: str) -> str:
    """Say that a class lets a share come to less, where it does."""
    if share is None or most is None or share <= most:
        return ""
    return f"cache.replicas comes to {share} and is taken as {most}: DatasetClass {class_name} allows {most} at most"

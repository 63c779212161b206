"""Commands for the fetcher, from the operator's plan, the commands already sent, and the disk. Pure."""

from collections.abc import Collection, Iterable, Mapping

from stoker_api.node_caches.node_dataset import NodeDataset
from stoker_sidecar.volumes.core.publish import VersionKey
from stoker_sidecar.wire.credentials import Credentials
from stoker_sidecar.wire.fetcher_hints import Tune
from stoker_sidecar.wire.fetcher_protocol import Configure, Remove

Held = Mapping[str, tuple[str, ...]]  # uid -> versions that pods of this node have mounted, or are about to


def wanted(datasets: Iterable[NodeDataset], credentials: Mapping[str, Credentials], held: Held) -> dict[str, Configure]:
    """Return the target configuration of each dataset, by uid. Omit datasets whose credentials are still being read."""
    return {
        dataset.uid: Configure(dataset.wire(), credentials[dataset.uid], held.get(dataset.uid, ()))
        for dataset in datasets
        if dataset.uid in credentials
    }


def commands(
    planned: Collection[str],
    target: Mapping[str, Configure],
    sent: Mapping[str, Configure],
    on_disk: Iterable[str],
    held: Held,
    kept: Collection[str] = (),
) -> list[Configure | Remove]:
    """Return commands that configure new and changed datasets and remove unplanned ones.

    Remove a dataset that is on the disk but in no plan, once no pod uses it, unless it is ``kept``.

    ``planned``: all uids of the plan, including those that are missing in ``target``.
    """
    changed: list[Configure | Remove] = [order for uid, order in target.items() if sent.get(uid) != order]
    left = sorted((set(on_disk) | set(sent)) - set(planned) - set(kept))
    return changed + [Remove(uid) for uid in left if not held.get(uid)]


def tunings(orders: Mapping[VersionKey, Tune], tuned: Mapping[VersionKey, Tune], sent: Collection[str]) -> list[Tune]:
    """Return the tuning orders to send, for datasets that the fetcher knows (``sent``).

    A version without an order counts as untuned.
    """
    return [order for key, order in orders.items() if key[0] in sent and tuned.get(key, Tune(*key)) != order]


def kept_meanwhile(said: Configure | None, command: Configure | Remove) -> frozenset[str]:
    """Return the versions that the fetcher surely keeps until it answers ``command``. It may still act on ``said``.

    ``said``: the last command that it confirmed for this dataset.
    """
    if said is None or isinstance(command, Remove):
        return frozenset()
    return frozenset(said.held).intersection(command.held)

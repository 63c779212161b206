"""What to tell the fetcher: the operator's plan against what the fetcher was told and what lies on the disk. Pure."""

from collections.abc import Collection, Iterable, Mapping

from stoker_api.node_dataset import NodeDataset
from stoker_sidecar.volumes.core.publish import VersionKey
from stoker_sidecar.wire.credentials import Credentials
from stoker_sidecar.wire.fetcher_protocol import Configure, Remove, Tune

Held = Mapping[str, tuple[str, ...]]  # uid -> versions that pods of this node have mounted, or are about to


def wanted(datasets: Iterable[NodeDataset], credentials: Mapping[str, Credentials], held: Held) -> dict[str, Configure]:
    """Return, by uid, how the fetcher should serve each dataset; one whose credentials are still being read waits."""
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
    """Return orders that configure what is new or different.

    Remove what is on the disk and in no plan, once no pod uses it, unless it is ``kept``.

    ``planned``: uids of the plan, also those that ``target`` does not have yet.
    """
    changed: list[Configure | Remove] = [order for uid, order in target.items() if sent.get(uid) != order]
    left = sorted((set(on_disk) | set(sent)) - set(planned) - set(kept))
    return changed + [Remove(uid) for uid in left if not held.get(uid)]


def tunings(orders: Mapping[VersionKey, Tune], tuned: Mapping[VersionKey, Tune], sent: Collection[str]) -> list[Tune]:
    """Return the orders that the fetcher was not given yet, of datasets that it knows (``sent``).

    A version of which nothing was said is as without rules.
    """
    return [order for key, order in orders.items() if key[0] in sent and tuned.get(key, Tune(*key)) != order]


def kept_meanwhile(said: Configure | None, command: Configure | Remove) -> frozenset[str]:
    """Return the versions that the fetcher keeps for sure until it answers ``command``: it may act on ``said`` still.

    ``said``: what it confirmed last of the same dataset.
    """
    if said is None or isinstance(command, Remove):
        return frozenset()
    return frozenset(said.held).intersection(command.held)

"""Entries that several Datasets share are in memory once."""

from stoker_api.node_caches.node_dataset import NodeDataset, PeerLinks
from stoker_operator.core.incremental.entries import share_peers
from tests.unit.stoker_operator.builders import given, make_dataset


def entry(name: str, peer: str, link: str) -> NodeDataset:
    return given(make_dataset(name), peers=(peer,), groups=PeerLinks(links=(link,)))


def test_an_entry_uses_the_peers_of_another_one_where_they_are_the_same() -> None:
    one, other = entry("a", "p", "l"), entry("b", "p", "l")
    share_peers(one, other)
    assert (one.peers is other.peers, one.groups is other.groups) == (True, True)
    assert one == entry("a", "p", "l")


def test_an_entry_keeps_peers_that_are_others() -> None:
    one = entry("a", "p", "l")
    share_peers(one, entry("b", "q", "m"))
    assert one == entry("a", "p", "l")

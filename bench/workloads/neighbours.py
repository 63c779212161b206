"""What the bucket sends, and how long it takes, until nodes that begin at once have, or have read, a cold version."""

import random
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import NamedTuple

from bench.environment import Environment
from bench.measure import drop_page_cache, machine_ticks, tree_cpu_seconds, wait_until
from bench.network import NETWORK, Network
from bench.node import NetworkPlace, Node, Volume
from bench.objects import paths
from bench.readers import Job, read_jobs
from bench.report import Cost, Row
from bench.scale import Corpus, SharedCorpus
from bench.server import S3Server
from bench.sidecar import Switches
from bench.systems import STOKER
from stoker_api.tuning import NodeTuning
from stoker_operator.webhook.certs import renewed_peer
from stoker_sidecar.wire.peer_tls import FILE

WORKLOAD = "neighbours"
ALONE = "one node alone"
EACH = "Stoker, neighbours off"
SECONDS = "s until all have it"
SENT = "x the data sent by the bucket"
SECONDS_READING = "s until all have read it, cold"
SENT_READING = "x the data sent by the bucket, until all have read it"
# What nodes are told besides who the others are, so that they take from each other. Off, they are told of nobody.
_PLAN = NodeTuning()
_START_SECONDS = 60.0
# Files that go in pieces, of which the last ones are small.
_FIRST = Corpus(2, 9_000_000, 1)
# Until a node that was told of a Dataset follows the rules for it.
_SETTLE_SECONDS = 2.0
# Processes that read on each node; and the largest files that readers have from other nodes: larger ones nothing proves
# before all of them is there.
_READERS, _READ_AT_MOST = 2, 8 * 2**20


class _Neighbour(NamedTuple):
    """A node of the network, and its place there."""

    node: Node
    place: NetworkPlace


@dataclass(frozen=True)
class _Lan:
    """A bucket and nodes, each behind a line of ``network``. ``env``: has the bucket's server for its own."""

    env: Environment
    network: Network
    members: Sequence[_Neighbour]
    uids: "count[int]"


class _Sample(NamedTuple):
    """What one warm-up took. ``busy``: share of this machine's cores."""

    seconds: float
    busy: float
    cost: Cost


def measure(env: Environment) -> Iterator[Row]:
    """Yield rows for each corpus and number of nodes: with neighbours, without, and one node alone beside them."""
    with _lan(env) as lan:
        _once(lan)
        for shared in env.scale.sharing.corpora:
            lan.network.hold(shared.megabits)
            with lan.env.corpus("neighbours", shared.corpus) as prefix:
                yield from _of_corpus(lan, prefix, shared)


@contextmanager
def _lan(env: Environment) -> Iterator[_Lan]:
    """Run a bucket and as many nodes as are measured at most. Raises BenchError."""
    material = renewed_peer(None, datetime.now(UTC))
    secret = {"ca.crt": material.authorities, "tls.crt": material.certificate, "tls.key": material.key}
    most = max(env.scale.sharing.nodes)
    env.say(f"{WORKLOAD}: starting {most} nodes and a bucket in network namespaces of their own")
    with ExitStack() as stack:
        network = stack.enter_context(Network())
        folder = env.server.folder / "lan"
        folder.mkdir()
        far = replace(env, server=stack.enter_context(S3Server(folder, network.host())))
        places = [NetworkPlace(network.host(), network.address, secret) for _ in range(most)]
        switches = Switches(networks=NETWORK)
        members = [
            _Neighbour(stack.enter_context(far.node(switches=switches, name=f"n{number}", place=place)), place)
            for number, place in enumerate(places)
        ]
        for member in members:
            known = member.node.sidecar.run_dir / FILE
            wait_until("a node to know the others' certificate", known.exists, _START_SECONDS)
        yield _Lan(far, network, members, count())


def _once(lan: _Lan) -> None:
    """Have all nodes share something once: what each process reads and compiles at its first Dataset is not counted.

    Real nodes do that once in weeks, each on cores of its own, and here all at once on those of one machine.
    """
    with lan.env.corpus("neighbours-first", _FIRST) as prefix:
        _sample(lan, len(lan.members), prefix, STOKER)


def _of_corpus(lan: _Lan, prefix: str, shared: SharedCorpus) -> Iterator[Row]:
    def samples(nodes: int, system: str, corpus: Corpus | None = None) -> list[_Sample]:
        case = f"{WORKLOAD}: {shared.name}, {nodes} nodes, {system}{', read by all' if corpus else ''}"
        return [_sample(lan, nodes, prefix, system, corpus) for _ in lan.env.repeat(case)]

    alone = samples(1, ALONE)
    for nodes in lan.env.scale.sharing.nodes:
        case = f"{nodes} nodes, {shared.name}, lines of {shared.megabits} Mbit/s"
        yield _seconds(case, ALONE, alone)
        for system in (STOKER, EACH):
            found = samples(nodes, system)
            yield _seconds(case, system, found)
            yield _sent(case, system, found, shared.corpus, SENT)
        for system in (STOKER, EACH) if shared.corpus.size <= _READ_AT_MOST else ():
            found = samples(nodes, system, shared.corpus)
            yield Row(WORKLOAD, case, system, SECONDS_READING, tuple(one.seconds for one in found))
            yield _sent(case, system, found, shared.corpus, SENT_READING)


def _sent(case: str, system: str, found: Sequence[_Sample], corpus: Corpus, unit: str) -> Row:
    return Row(WORKLOAD, case, system, unit, tuple(one.cost.sent / corpus.total_bytes for one in found))


def _seconds(case: str, system: str, found: Sequence[_Sample]) -> Row:
    note = f"{max(one.busy for one in found):.0%} of the cores busy"
    seconds, costs = tuple(one.seconds for one in found), tuple(one.cost for one in found)
    return Row(WORKLOAD, case, system, SECONDS, seconds, ALONE, note, costs)


def _sample(lan: _Lan, nodes: int, prefix: str, system: str, corpus: Corpus | None = None) -> _Sample:
    """Have a cold version warmed by so many at once, and removed again. Raises BenchError.

    ``corpus``: of what; pods on all nodes begin to read it at the same moment, each in an order of its own, and they
    are what is waited for. None: nobody reads.
    """
    members, uid = lan.members[:nodes], f"shared-{next(lan.uids)}"
    volumes = [one.node.list_source(prefix, uid) for one in members]
    _offer(members, volumes, system, eager=False)
    drop_page_cache()
    time.sleep(_SETTLE_SECONDS)
    with lan.env.meter() as meter:
        cpu, ticks, start = _cpu(members), machine_ticks(), time.monotonic()
        _offer(members, volumes, system, eager=True)
        if corpus is not None:
            _read(members, volumes, corpus)
        for one, volume in zip(members, volumes, strict=True) if corpus is None else ():
            one.node.wait_warm(volume)
        seconds, busy = time.monotonic() - start, machine_ticks().share_since(ticks)
        cpu = _cpu(members) - cpu
    for one, volume in zip(members, volumes, strict=True):
        one.node.remove(volume)
    return _Sample(seconds, busy, replace(meter.cost, cpu=cpu))


def _offer(members: Sequence[_Neighbour], volumes: Sequence[Volume], system: str, *, eager: bool) -> None:
    """Tell each node of the version, as the operator does, and of the others where they are to share."""
    peers = tuple(one.place.peer for one in members)
    for position, (one, volume) in enumerate(zip(members, volumes, strict=True)):
        others = {"peers": peers[:position] + peers[position + 1 :], "position": position}
        sharing, tuning = (others, _PLAN) if system == STOKER else ({}, None)
        one.node.offer(volume, eager=eager, tuning=tuning, sharing=sharing)


def _read(members: Sequence[_Neighbour], volumes: Sequence[Volume], corpus: Corpus) -> None:
    """Have pods read all of it on each node, as data loaders do: in an order of each node's own. Raises BenchError."""
    targets, jobs = [], []
    for number, (one, volume) in enumerate(zip(members, volumes, strict=True)):
        targets.append(target := one.node.publish(volume))
        order = [f"{target.relative_to('/')}/{path}" for path in paths(corpus)]
        random.Random(number).shuffle(order)
        jobs += [Job(order[reader::_READERS]) for reader in range(_READERS)]
    try:
        read_jobs(Path("/"), jobs, len(members) * corpus.total_bytes)
    finally:
        for one, target in zip(members, targets, strict=True):
            one.node.unpublish(target)


def _cpu(members: Sequence[_Neighbour]) -> float:
    return sum(tree_cpu_seconds(one.node.sidecar.pid) for one in members)

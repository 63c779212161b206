"""The bytes sent by the bucket and the time until nodes with a common start have warmed, or read, a cold version."""

import random
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import NamedTuple

from bench.apistub import NODE
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
from stoker_api.profiles.tuning import NodeTuning
from stoker_operator.webhook.peer_authority import PeerSigner, renewed_authority
from stoker_sidecar.wire.config.peer_tls import FILE

WORKLOAD = "peers"
ALONE = "one node alone"
EACH = "Stoker, peers off"
SECONDS = "s until all have it"
SENT = "x the data sent by the bucket"
SECONDS_READING = "s until all have read it, cold"
SENT_READING = "x the data sent by the bucket, until all have read it"
# Settings that nodes get in addition to their peers, so that they fetch from each other. Off, they get no peers.
_PLAN = NodeTuning()
_START_SECONDS = 60.0
# Files that are fetched in pieces, with smaller last pieces.
_FIRST = Corpus(2, 9_000_000, 1)
# Seconds until a node follows the rules of a new Dataset.
_SETTLE_SECONDS = 2.0
# Reader processes per node, and the largest file that readers get from peers. A larger file has no checksum that proves
# parts of it.
_READERS, _READ_AT_MOST = 2, 8 * 2**20


@dataclass(frozen=True)
class _Lan:
    """A bucket and nodes, each behind a line of ``network``. ``env`` uses the bucket's server."""

    env: Environment
    network: Network
    members: Sequence[Node]
    uids: "count[int]"


class _Sample(NamedTuple):
    """The result of one warm-up. ``busy`` is the used share of this machine's cores."""

    seconds: float
    busy: float
    cost: Cost


def measure(env: Environment) -> Iterator[Row]:
    """Yield rows for each corpus and number of nodes: with peers, without peers, and for a single node."""
    with _lan(env) as lan:
        _once(lan)
        for shared in env.scale.sharing.corpora:
            lan.network.hold(shared.megabits)
            with lan.env.corpus("peers", shared.corpus) as prefix:
                yield from _of_corpus(lan, prefix, shared)


@contextmanager
def _lan(env: Environment) -> Iterator[_Lan]:
    """Run a bucket and the largest measured number of nodes. Raises BenchError."""
    signer = PeerSigner(renewed_authority(None, datetime.now(UTC)))
    most = max(env.scale.sharing.nodes)
    env.say(f"{WORKLOAD}: starting {most} nodes and a bucket in network namespaces of their own")
    with ExitStack() as stack:
        network = stack.enter_context(Network())
        folder = env.server.folder / "lan"
        folder.mkdir()
        far = replace(env, server=stack.enter_context(S3Server(folder, network.host())))
        places = [NetworkPlace(network.host(), network.address, signer) for _ in range(most)]
        switches = Switches(networks=NETWORK)
        members = [
            stack.enter_context(far.node(switches=switches, name=f"n{number}", place=place))
            for number, place in enumerate(places)
        ]
        for member in members:
            known = member.sidecar.run_dir / FILE
            wait_until("a node to know the others' certificate", known.exists, _START_SECONDS)
        yield _Lan(far, network, members, count())


def _once(lan: _Lan) -> None:
    """Share a first corpus among all nodes without counting it, because each process loads and compiles code then.

    Real nodes do that once in weeks, each on its own cores. Here all do it at once on the cores of one machine.
    """
    with lan.env.corpus("peers-first", _FIRST) as prefix:
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
    """Warm a cold version on this number of nodes at once, and remove it. Raises BenchError.

    With ``corpus``, pods on all nodes start to read it at the same moment, each in its own order, and the wait is for
    their reads. With None, no pod reads.
    """
    members, uid = lan.members[:nodes], f"shared-{next(lan.uids)}"
    volumes = [one.list_source(prefix, uid) for one in members]
    _offer(members, volumes, system, eager=False)
    drop_page_cache()
    time.sleep(_SETTLE_SECONDS)
    with lan.env.meter() as meter:
        cpu, ticks, start = _cpu(members), machine_ticks(), time.monotonic()
        _offer(members, volumes, system, eager=True)
        if corpus is not None:
            _read(members, volumes, corpus)
        for one, volume in zip(members, volumes, strict=True) if corpus is None else ():
            one.wait_warm(volume)
        seconds, busy = time.monotonic() - start, machine_ticks().share_since(ticks)
        cpu = _cpu(members) - cpu
    for one, volume in zip(members, volumes, strict=True):
        one.remove(volume)
    return _Sample(seconds, busy, replace(meter.cost, cpu=cpu))


def _offer(members: Sequence[Node], volumes: Sequence[Volume], system: str, *, eager: bool) -> None:
    """Announce the version to each node, as the operator does, with its peers if they share."""
    peers = tuple(one.peer for one in members)
    for position, (one, volume) in enumerate(zip(members, volumes, strict=True)):
        others: dict[str, object] = {"peers": peers[:position] + peers[position + 1 :], "position": position}
        others["groups"] = {"names": (NODE,) * (len(peers) - 1)}
        sharing, tuning = (others, _PLAN) if system == STOKER else ({}, None)
        one.offer(volume, eager=eager, tuning=tuning, sharing=sharing)


def _read(members: Sequence[Node], volumes: Sequence[Volume], corpus: Corpus) -> None:
    """Read the whole version by pods on each node, in a different order per node. Raises BenchError."""
    targets, jobs = [], []
    for number, (one, volume) in enumerate(zip(members, volumes, strict=True)):
        targets.append(target := one.publish(volume))
        order = [f"{target.relative_to('/')}/{path}" for path in paths(corpus)]
        random.Random(number).shuffle(order)
        jobs += [Job(order[reader::_READERS]) for reader in range(_READERS)]
    try:
        read_jobs(Path("/"), jobs, len(members) * corpus.total_bytes)
    finally:
        for one, target in zip(members, targets, strict=True):
            one.unpublish(target)


def _cpu(members: Sequence[Node]) -> float:
    return sum(tree_cpu_seconds(one.sidecar.pid) for one in members)

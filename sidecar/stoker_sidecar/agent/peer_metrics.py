"""Prometheus metrics of what this node gives to others."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from stoker_sidecar.agent.peer_files import PeerFiles, PeerRefusal
from stoker_sidecar.agent.plan import NodePlan


class PeerCollector(Collector):
    """What was given to other nodes and what was not, when someone scrapes."""

    def __init__(self, plan: NodePlan, files: PeerFiles) -> None:
        self._plan = plan
        self._files = files

    def collect(self) -> Iterator[Metric]:
        """Yield the families."""
        text = "Bytes that were given to other nodes."
        sent = CounterMetricFamily("stoker_peer_sent_bytes", text, labels=("namespace", "dataset"))
        for uid, dataset in self._plan.planned.items():
            sent.add_metric((dataset.namespace, dataset.name), self._files.given[uid])
        yield sent
        text = "Files and pieces that other nodes asked for and were not given, by why."
        refused = CounterMetricFamily("stoker_peer_refused", text, labels=("reason",))
        for reason in PeerRefusal:
            refused.add_metric((reason,), self._files.refused[reason])
        yield refused

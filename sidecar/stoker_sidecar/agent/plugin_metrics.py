"""Prometheus metrics of plug-ins, labelled by names that the chart allows and by a closed set of words."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from stoker_sidecar.agent.node_plugins import NodePlugins
from stoker_sidecar.agent.order_plugins import OrderPlugins

_ASKED = "Times that a framework plug-in was asked, by what came of it: answered or refused."
_ORDERS = "Times that an order plug-in was asked for an epoch's order, by what came of it: answered or refused."
_SECONDS = "Seconds in which order plug-ins were asked."
_WRONG = "1 for each order plug-in with which something is wrong: status.orderPlugins of the NodeCache says what."
_OUT = "1 for each framework plug-in that is left out: status.plugins of the NodeCache says why."


class PluginCollector(Collector):
    """What came of asking plug-ins, when someone scrapes."""

    def __init__(self, plugins: NodePlugins) -> None:
        self._plugins = plugins

    def collect(self) -> Iterator[Metric]:
        """Yield the families."""
        asked = CounterMetricFamily("stoker_plugin_questions", _ASKED, labels=("plugin", "result"))
        for (name, result), count in sorted(self._plugins.counts.items()):
            asked.add_metric((name, result), count)
        yield asked
        out = GaugeMetricFamily("stoker_plugin_left_out", _OUT, labels=("plugin",))
        for row in self._plugins.rows():
            out.add_metric((row.name,), int(bool(row.message)))
        yield out


class OrderPluginCollector(Collector):
    """What came of asking order plug-ins, when someone scrapes."""

    def __init__(self, plugins: OrderPlugins) -> None:
        self._plugins = plugins

    def collect(self) -> Iterator[Metric]:
        """Yield the families."""
        asked = CounterMetricFamily("stoker_order_plugin_questions", _ORDERS, labels=("plugin", "result"))
        for (name, result), count in sorted(self._plugins.counts.items()):
            asked.add_metric((name, result), count)
        yield asked
        seconds = CounterMetricFamily("stoker_order_plugin_seconds", _SECONDS, labels=("plugin",))
        for name, sum_of in sorted(self._plugins.seconds.items()):
            seconds.add_metric((name,), sum_of)
        yield seconds
        wrong = GaugeMetricFamily("stoker_order_plugin_wrong", _WRONG, labels=("plugin",))
        for row in self._plugins.rows():
            wrong.add_metric((row.name,), int(bool(row.message)))
        yield wrong

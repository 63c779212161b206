"""The node's tuning results over HTTP: totals for all, rules and history for administrators.

Rules and history contain names of Datasets and pods of all namespaces, so only the pod's loopback address serves them.
``kubectl port-forward`` reaches it, which needs rights in Stoker's namespace.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from aiohttp import web

from stoker_api.node_caches.node_hardware import NodeHardware
from stoker_api.node_caches.node_workload import NodeWorkload
from stoker_api.node_caches.workload_totals import workload_totals
from stoker_sidecar.agent.learning.node_learning import NodeLearning
from stoker_sidecar.agent.learning.tuning_history import HistoryKind
from stoker_sidecar.threads import in_thread
from stoker_tuning.rules.spec import RuleSpec

MOST_ROWS = 1000
_KINDS = [kind.value for kind in HistoryKind]


class TuningHttp:
    """The pages ``/ml/metrics``, ``/ml/rules`` and ``/ml/history`` of a node, as JSON.

    ``rows`` returns the node's current workloads. ``rules`` returns the rules in force, and may block. ``hardware`` is
    the machine.
    """

    def __init__(
        self,
        learning: NodeLearning,
        rows: Callable[[], Iterable[NodeWorkload]],
        rules: Callable[[], Sequence[RuleSpec]],
        hardware: NodeHardware = NodeHardware(),  # noqa: B008 -- frozen
    ) -> None:
        self._learning = learning
        self._rows = rows
        self._rules = rules
        self._hardware = hardware

    def application(self) -> web.Application:
        """Return all pages, for the pod's loopback address."""
        app = web.Application()
        app.router.add_get("/ml/metrics", self.metrics)
        app.router.add_get("/ml/rules", self._show_rules)
        app.router.add_get("/ml/history", self._show_history)
        return app

    async def metrics(self, _: web.Request) -> web.Response:
        """Answer with totals, which contain no names."""
        learning = self._learning
        changes = learning.changes
        verdicts = {verdict for _, verdict in changes}
        return web.json_response(
            workload_totals(self._rows()).wire()
            | {
                "optimizationEvents": changes.total(),
                "optimizationEventsByVerdict": {
                    one: sum(count for (_, verdict), count in changes.items() if verdict == one)
                    for one in sorted(verdicts)
                },
                "phaseChanges": learning.phases.changes.total(),
                "predictions": learning.phases.hits.total(),
                "predictionsRight": learning.phases.hits[True],
                "hardware": self._hardware.wire(),
            }
        )

    async def _show_rules(self, _: web.Request) -> web.Response:
        rules = await in_thread(self._rules)
        return web.json_response({"rules": [_rule(rule) for rule in rules], "learned": self._learned()})

    def _learned(self) -> list[dict[str, Any]]:
        """Return the results of each rule and other source of knob changes, by pattern."""
        return [
            {
                "namespace": key.namespace,
                "rule": key.origin,
                "pattern": key.pattern.value,
                "changes": rate.changes,
                "helped": rate.helped,
                "hurt": rate.hurt,
                "successRate": round(rate.rate, 3),
                "interval": [round(limit, 3) for limit in rate.interval],
                "leftOut": rate.hopeless,
            }
            for key, rate in self._learning.learner.rates.rows()
        ]

    async def _show_history(self, request: web.Request) -> web.Response:
        """Answer with the last rows, filtered by ``kind``, ``about`` (NAMESPACE/NAME), ``namespace`` and ``limit``."""
        asked = request.query
        kind, limit = asked.get("kind", ""), asked.get("limit", "100")
        if kind and kind not in _KINDS:
            return _no(f"kind is {kind[:40]!r}: it must be one of {', '.join(_KINDS)}")
        if not limit.isdecimal() or not 1 <= int(limit[:9]) <= MOST_ROWS:
            return _no(f"limit is {limit[:40]!r}: it must be a number from 1 to {MOST_ROWS}")
        rows = await in_thread(
            self._learning.history.rows,
            kind=HistoryKind(kind) if kind else None,
            about=asked.get("about", ""),
            namespace=asked.get("namespace", ""),
            most=int(limit),
        )
        return web.json_response({"history": [row.wire() for row in rows]})


def _rule(rule: RuleSpec) -> dict[str, Any]:
    return {
        "id": rule.id,
        "name": rule.name,
        "description": rule.description,
        "document": rule.origin.document,
        "layer": rule.origin.layer.value,
        "priority": rule.priority,
        "conditions": [str(condition) for condition in (*rule.gates, *rule.conditions)],
        "actions": [
            {"type": action.type.value, "target": action.target.value, "parameters": action.parameters}
            for action in rule.actions
        ],
    }


def _no(sentence: str) -> web.Response:
    return web.json_response({"error": sentence}, status=400)

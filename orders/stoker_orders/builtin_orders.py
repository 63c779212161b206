"""The built-in samplers behind the plug-in interface, so that the same tools and contract tests cover them."""

from array import array
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from stoker_orders.loader_schedule import Loading, rank_order
from stoker_orders.predictors.samplers import SamplerName
from stoker_orders.sampling_plan import SamplingPlan


class BuiltInOrder:
    """One built-in sampler as an order plug-in. The node computes its order directly, without this class."""

    def __init__(self, name: SamplerName) -> None:
        self.name: str = name
        self._sampler = name

    def order(self, asked: Mapping[str, Any]) -> "array[int]":
        """Return an epoch's samples in turns of ranks. Raises ValueError for arguments that the sampler refuses.

        ``parameters`` may have ``groupSize``, ``reservoir`` and ``ratio``, as in a sampling.
        """
        said = asked["parameters"]
        plan = SamplingPlan(
            self._sampler,
            seed=asked["seed"],
            batch=asked["batch"],
            ranks=asked["ranks"],
            drop_last=asked["drop_last"],
            group=int(said.get("groupSize", 1)),
            reservoir=int(said.get("reservoir", 256)),
            ratio=Fraction(said.get("ratio", "1")),
        )
        order = plan.order_of(asked["samples"], asked["epoch"], ())
        loading = Loading(len(order), plan.ranks, (), plan.turn, plan.batch, drop_last=plan.drop_last)
        if loading.turn == 1 and len(order) == loading.total:
            return order
        laid = array("I", bytes(4 * loading.total))
        for rank in range(plan.ranks):
            laid[rank :: plan.ranks] = array("I", rank_order(order, loading, rank))
        return laid

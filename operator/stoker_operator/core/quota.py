"""How much the Datasets of one namespace and class hold together, and may."""

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Final, NamedTuple

from stoker_api.meta import format_bytes
from stoker_operator.core.class_limits import ClassTerms

_NAMED = 5  # Datasets that a sentence names


class Tenant(NamedTuple):
    """Whose quota it is."""

    class_name: str
    namespace: str


class QuotaBook:
    """What is handed out, in bytes, by tenant."""

    def __init__(self) -> None:
        self._total: Final[Counter[Tenant]] = Counter()
        self._on_node: Final[defaultdict[Tenant, Counter[str]]] = defaultdict(Counter)
        self._by_dataset: Final[defaultdict[Tenant, Counter[str]]] = defaultdict(Counter)

    def charge(self, tenant: Tenant, dataset: str, node: str, amount: int) -> None:
        """Note that the Dataset of that name holds, or may hold, so many bytes on a node."""
        self._total[tenant] += amount
        self._on_node[tenant][node] += amount
        self._by_dataset[tenant][dataset] += amount

    def forget(self, tenant: Tenant) -> None:
        """Take back all that was handed out to a tenant."""
        for book in (self._total, self._on_node, self._by_dataset):
            book.pop(tenant, None)

    def total(self, tenant: Tenant) -> int:
        """Return the bytes over all nodes."""
        return self._total[tenant]

    def on_node(self, tenant: Tenant, node: str) -> int:
        """Return the bytes on one node."""
        return self._on_node[tenant][node]

    def of_dataset(self, tenant: Tenant, dataset: str) -> int:
        """Return the bytes of one Dataset over all nodes."""
        return self._by_dataset[tenant][dataset]

    def largest(self, tenant: Tenant) -> list[tuple[str, int]]:
        """Return the Datasets that hold something, the largest first."""
        held = self._by_dataset[tenant]
        return sorted(((name, amount) for name, amount in held.items() if amount), key=lambda one: (-one[1], one[0]))


@dataclass(frozen=True, slots=True)
class QuotaShare:
    """The part of one Dataset in its tenant's quota."""

    book: QuotaBook
    tenant: Tenant
    dataset: str  # its name
    terms: ClassTerms

    @property
    def limited(self) -> bool:
        """True when there is a quota."""
        return self.terms.namespace_quota is not None or self.terms.node_quota is not None

    @property
    def charged(self) -> int:
        """Bytes that are charged to this Dataset, over all nodes."""
        return self.book.of_dataset(self.tenant, self.dataset)

    def fits(self, node: str, need: int) -> bool:
        """Tell whether the node may be given so many bytes of it."""
        return _within(self.book.total(self.tenant) + need, self.terms.namespace_quota) and _within(
            self.book.on_node(self.tenant, node) + need, self.terms.node_quota
        )

    def charge(self, node: str, amount: int) -> None:
        """Note that so many bytes of it are on the node, or may come there."""
        if not self.limited:
            return  # nobody asks
        self.book.charge(self.tenant, self.dataset, node, amount)

    def sentence(self, need: int) -> str:
        """Say what is allowed, who holds how much of it, and what can be done; ``need``: bytes on each node."""
        amounts = ((self.terms.namespace_quota, "over all nodes"), (self.terms.node_quota, "on each node"))
        allowed = " and ".join(f"{format_bytes(amount)} {where}" for amount, where in amounts if amount is not None)
        held = self.book.largest(self.tenant)
        names = ", ".join(f"{name} ({format_bytes(amount)})" for name, amount in held[:_NAMED]) or "none"
        more = f" and {len(held) - _NAMED} more" if len(held) > _NAMED else ""
        return (
            f"DatasetClass {self.terms.name} gives the Datasets of namespace {self.tenant.namespace} {allowed}, and "
            f"{format_bytes(self.book.total(self.tenant))} of it is taken, by {names}{more}; this one needs "
            f"{format_bytes(need)} on a node: delete one of them, lower cache.replicas or set cache.quota, or ask an "
            "administrator for more"
        )


def _within(amount: int, limit: int | None) -> bool:
    return limit is None or amount <= limit

"""Bytes that the Datasets of one namespace and class hold together, and their quota."""

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Final, NamedTuple

from stoker_api.meta import format_bytes
from stoker_operator.core.classes.class_limits import ClassTerms

_NAMED = 5  # Datasets in a message


class Tenant(NamedTuple):
    """The owner of a quota."""

    class_name: str
    namespace: str


class QuotaBook:
    """Charged bytes by tenant."""

    def __init__(self) -> None:
        self._total: Final[Counter[Tenant]] = Counter()
        self._on_node: Final[defaultdict[Tenant, Counter[str]]] = defaultdict(Counter)
        self._by_dataset: Final[defaultdict[Tenant, Counter[str]]] = defaultdict(Counter)

    def charge(self, tenant: Tenant, dataset: str, node: str, amount: int) -> None:
        """Charge ``amount`` bytes that the Dataset holds, or may hold, on a node."""
        self._total[tenant] += amount
        self._on_node[tenant][node] += amount
        self._by_dataset[tenant][dataset] += amount

    def forget(self, tenant: Tenant) -> None:
        """Remove all charges of a tenant."""
        for book in (self._total, self._on_node, self._by_dataset):
            book.pop(tenant, None)

    def total(self, tenant: Tenant) -> int:
        """Return the bytes on all nodes."""
        return self._total[tenant]

    def on_node(self, tenant: Tenant, node: str) -> int:
        """Return the bytes on one node."""
        return self._on_node[tenant][node]

    def of_dataset(self, tenant: Tenant, dataset: str) -> int:
        """Return the bytes of one Dataset on all nodes."""
        return self._by_dataset[tenant][dataset]

    def largest(self, tenant: Tenant) -> list[tuple[str, int]]:
        """Return the Datasets with charged bytes, largest first."""
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
        """True if there is a quota."""
        return self.terms.namespace_quota is not None or self.terms.node_quota is not None

    @property
    def charged(self) -> int:
        """Bytes charged to this Dataset on all nodes."""
        return self.book.of_dataset(self.tenant, self.dataset)

    def fits(self, node: str, need: int) -> bool:
        """Return True if ``need`` more bytes on the node are within the quota."""
        return _within(self.book.total(self.tenant) + need, self.terms.namespace_quota) and _within(
            self.book.on_node(self.tenant, node) + need, self.terms.node_quota
        )

    def charge(self, node: str, amount: int) -> None:
        """Charge bytes that are on the node or may come there."""
        if not self.limited:
            return  # no quota reads the charge
        self.book.charge(self.tenant, self.dataset, node, amount)

    def sentence(self, need: int) -> str:
        """Describe the quota, its largest users, and the fix. ``need``: bytes on each node."""
        amounts = ((self.terms.namespace_quota, "over all nodes"), (self.terms.node_quota, "on each node"))
        allowed = " and ".join(f"{format_bytes(amount)} {where}" for amount, where in amounts if amount is not None)
        held = self.book.largest(self.tenant)
        names = ", ".join(f"{name} ({format_bytes(amount)})" for name, amount in held[:_NAMED])
        more = f" and {len(held) - _NAMED} more" if len(held) > _NAMED else ""
        used = format_bytes(self.book.total(self.tenant)) + (f" used by {names}{more}" if held else " used")
        return (
            f"DatasetClass {self.terms.name} gives the Datasets of namespace {self.tenant.namespace} {allowed}; "
            f"{used}; this Dataset needs {format_bytes(need)} per node: delete a Dataset, lower cache.replicas or set "
            "cache.quota, or ask an administrator for more"
        )


def _within(amount: int, limit: int | None) -> bool:
    return limit is None or amount <= limit

"""Keeps the rights that let nodes read the credentials of their Datasets."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from stoker_api import names
from stoker_api.datasets.dataset import Dataset
from stoker_kube.api import Object
from stoker_kube.resources import ROLE_BINDINGS, ROLES, Kind
from stoker_operator.core.incremental.dataset_decision import Decision
from stoker_operator.core.plans.credentials_rbac import (
    KeptReaders,
    NamedCredentials,
    named_by,
    role,
    role_bindings,
    role_of,
)
from stoker_operator.core.plans.plan import DatasetPlan
from stoker_operator.core.views.cluster import ClusterView
from stoker_operator.mirror.informers import trim_grant
from stoker_operator.mirror.state import ClusterState, MirrorTable
from stoker_operator.reconcilers.loops.turns import KeyedAction
from stoker_operator.reconcilers.node_accounts import account_key
from stoker_operator.writes.writer import Writer

AT_ONCE = 8  # concurrent writes for one Role: when a hundred nodes join, sixty bindings change
_COMPARED = ("rules", "roleRef", "subjects")
_Row = tuple[Kind, str, str]  # kind, namespace, name
_Bodies = list[tuple[Kind, Object]]


@dataclass
class _Change:
    """The writes for one Role and its bindings: deletions first."""

    delete: list[_Row] = field(default_factory=list)
    apply: _Bodies = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _RightsSeen:
    """Whether all nodes of a Dataset could read its credentials, by the mirror's rights at ``stamp``."""

    plan: DatasetPlan
    named: tuple[NamedCredentials, ...]
    stamp: tuple[int, ...]
    answer: bool

    def still_holds(self, plan: DatasetPlan, named: tuple[NamedCredentials, ...], stamp: tuple[int, ...]) -> bool:
        """Return True if the answer also holds for ``plan``."""
        return self.stamp == stamp and self.plan.readers() is plan.readers() and self.named == named


class CredentialRights:
    """Compares Roles and RoleBindings with the mirror in each pass.

    So Stoker corrects objects from an earlier leader and manual changes, too. Stoker runs in ``own_namespace``.
    """

    def __init__(self, writer: Writer, state: ClusterState, own_namespace: str) -> None:
        self._writer: Final = writer
        self._state: Final = state
        self._own: Final = own_namespace
        self._accounts: Final = names.node_accounts_namespace(own_namespace)
        self._tables: Final[Mapping[Kind, MirrorTable[Mapping[str, Any]]]] = {
            ROLES: state.roles,
            ROLE_BINDINGS: state.role_bindings,
        }
        # Cached results: passes are many, and these rarely change.
        self._readers: Final = KeptReaders()
        self._bodies: Final[dict[NamedCredentials, _Bodies]] = {}
        self._basis: object = None
        self._actions: list[KeyedAction] = []
        self._written: Final[dict[str, _RightsSeen]] = {}
        self._seen: tuple[int, ...] = ()
        self._old_role = (0, False)  # number of changes of Roles, and whether the old Role existed then
        self._homes: Final[dict[str, str]] = {}  # namespaces of Datasets that are not under deletion, by key
        self._staying: Final[Counter[str]] = Counter()  # number of these Datasets per namespace

    def actions(self, decision: Decision) -> list[KeyedAction]:
        """Return the actions that write changed rights."""
        view, plans = decision.view, decision.plans
        for key in decision.changed:
            self._note_home(key, view.datasets.get(key))
            if key not in plans:
                self._written.pop(key, None)
        changed = self._readers.update(view, plans, decision.changed)
        for named in changed:
            self._settle(named)
        staying = frozenset(self._staying)
        basis = (self._stamp(), staying, self._has_old_sidecars(view) if self._has_old_role() else False)
        if changed or basis != self._basis:
            self._basis, self._actions = basis, list(self._differing(staying, old=basis[2]))
        return self._actions

    def _note_home(self, key: str, dataset: Dataset | None) -> None:
        before = self._homes.pop(key, "")
        if before:
            self._staying[before] -= 1
            if not self._staying[before]:
                del self._staying[before]
        if dataset is not None and not dataset.metadata.deletion_timestamp:
            self._homes[key] = home = dataset.metadata.namespace
            self._staying[home] += 1

    def moved(self) -> bool:
        """Return True if the mirror's rights or accounts changed since the last call."""
        before, self._seen = self._seen, self._stamp()
        return before != self._seen

    def _settle(self, named: NamedCredentials) -> None:
        nodes = self._readers.nodes(named)
        if not nodes:
            self._bodies.pop(named, None)
            return
        bindings = role_bindings(named, nodes, self._accounts)
        self._bodies[named] = [(ROLES, role(named)), *((ROLE_BINDINGS, body) for body in bindings)]

    def _stamp(self) -> tuple[int, ...]:
        """Return a value that changes with the mirror's rights and accounts."""
        return self._state.roles.changes, self._state.role_bindings.changes, self._state.node_accounts.changes

    def _differing(self, staying: Collection[str], *, old: bool) -> Iterator[KeyedAction]:
        there = self._there()
        for named, bodies in self._bodies.items():
            known = there.pop((named.namespace, named.role), {})
            # If all Datasets of a namespace are under deletion, the namespace may be, too, and then it accepts no new
            # objects.
            change = _difference(bodies, known, may_create=named.namespace in staying)
            yield from self._action(rights_key(named), named.namespace, change)
        for (namespace, name), known in there.items():
            if name != names.CREDENTIALS_ROLE or not old:
                yield from self._action(f"Role {namespace}/{name}", namespace, _difference([], known))

    def is_written(self, plan: DatasetPlan) -> bool:
        """Return True if, by the mirror, all nodes of this Dataset may read its credentials."""
        known, stamp = self._written.get(plan.dataset.key), self._stamp()
        if known is not None and known.plan is plan and known.stamp == stamp:
            return known.answer
        home, credentials = plan.dataset.metadata.namespace, plan.dataset.spec.source.credentials
        found = tuple(named_by(home, credentials))
        if not found:
            answer = True
        elif known is not None and known.still_holds(plan, found, stamp):
            answer = known.answer  # a report of one node must not cause a check of thousands
        else:
            answer = self._is_written(plan, found)
        self._written[plan.dataset.key] = _RightsSeen(plan, found, stamp, answer)
        return answer

    def _is_written(self, plan: DatasetPlan, found: Sequence[NamedCredentials]) -> bool:
        nodes, has_account = plan.readers(), self._state.node_accounts.get
        return all(has_account(account_key(self._accounts, node)) for node in nodes) and all(
            self._is_granted(named, nodes) for named in found
        )

    def _is_granted(self, named: NamedCredentials, nodes: Iterable[str]) -> bool:
        if not nodes:
            return True
        rows = [
            self._state.role_bindings.get(f"{named.namespace}/{name}") for name in {named.binding(one) for one in nodes}
        ]
        granted = {subject["name"] for row in rows if row for subject in row.get("subjects") or ()}
        known = self._state.roles.get(f"{named.namespace}/{named.role}")
        return known is not None and known.get("rules") == role(named)["rules"] and granted.issuperset(nodes)

    def _there(self) -> dict[tuple[str, str], dict[_Row, Mapping[str, Any]]]:
        """Return the mirror's rows, by namespace and name of the Role."""
        found: dict[tuple[str, str], dict[_Row, Mapping[str, Any]]] = {}
        for kind, table in self._tables.items():
            for key, row in table.snapshot().items():
                namespace, _, name = key.partition("/")
                if name == names.CREDENTIALS_ROLE:
                    found.setdefault((namespace, name), {})[kind, namespace, name] = row
                elif name.startswith(names.CREDENTIALS_PREFIX):
                    found.setdefault((namespace, role_of(name)), {})[kind, namespace, name] = row
        return found

    def _action(self, key: str, namespace: str, change: _Change) -> list[KeyedAction]:
        wanted = change.apply or change.delete
        return [KeyedAction(key, "role", namespace, partial(self._write, change))] if wanted else []

    async def _write(self, change: _Change) -> None:
        # Delete bindings before their Role, and create them after it.
        for kind in (ROLE_BINDINGS, ROLES):
            await _side_by_side([partial(self._delete, row) for row in change.delete if row[0] is kind])
        for kind in (ROLES, ROLE_BINDINGS):
            await _side_by_side([partial(self._apply, kind, body) for its, body in change.apply if its is kind])

    async def _delete(self, row: _Row) -> None:
        kind, namespace, name = row
        known = self._tables[kind].get(f"{namespace}/{name}")
        uid = str(known["metadata"].get("uid", "")) if known else ""
        await self._writer.delete(kind, name, namespace, uid)
        self._tables[kind].forget(f"{namespace}/{name}", uid)

    async def _apply(self, kind: Kind, body: Object) -> None:
        written = await self._writer.apply(kind, body)
        self._tables[kind].put(f"{body['metadata']['namespace']}/{body['metadata']['name']}", trim_grant(written))

    def _has_old_role(self) -> bool:
        changes = self._state.roles.changes
        if changes != self._old_role[0]:
            there = any(key.endswith(f"/{names.CREDENTIALS_ROLE}") for key in self._state.roles.snapshot())
            self._old_role = (changes, there)
        return self._old_role[1]

    def _has_old_sidecars(self, view: ClusterView) -> bool:
        """Return True if sidecars of an earlier version run, which read credentials under a shared account."""
        sidecars = (pod for pod in view.pods.values() if pod.sidecar and pod.namespace == self._own)
        return any(names.LABEL_NODE_ACCOUNT not in pod.labels for pod in sidecars if not pod.finished)


async def _side_by_side(writes: Sequence[Callable[[], Awaitable[None]]]) -> None:
    """Run the writes, a few at a time. Tries all of them, then raises the first error."""
    turns = asyncio.Semaphore(AT_ONCE)

    async def one(write: Callable[[], Awaitable[None]]) -> None:
        async with turns:
            await write()

    failed = [error for error in await asyncio.gather(*map(one, writes), return_exceptions=True) if error is not None]
    if failed:
        raise failed[0]


def rights_key(named: NamedCredentials) -> str:
    """Return the key of the action that writes the rights to these credentials."""
    return f"rights to {named}"


def _difference(bodies: _Bodies, known: dict[_Row, Mapping[str, Any]], may_create: bool = True) -> _Change:
    change = _Change()
    for kind, body in bodies:
        row = (kind, body["metadata"]["namespace"], body["metadata"]["name"])
        there = known.pop(row, None)
        if there is None and not may_create:
            continue
        if there is not None and there.get("roleRef") != body.get("roleRef"):
            change.delete.append(row)  # the API server does not allow a change of roleRef
        if there is None or any(there.get(name) != body.get(name) for name in _COMPARED):
            change.apply.append((kind, body))
    change.delete += sorted(known, key=lambda row: row[0] is ROLES)  # bindings first
    return change

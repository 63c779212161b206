"""Keeps the rights by which nodes read the credentials of the Datasets that they have."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from stoker_api import names
from stoker_api.dataset import Dataset
from stoker_kube.api import Object
from stoker_kube.resources import ROLE_BINDINGS, ROLES, Kind
from stoker_operator.core.credentials_rbac import (
    KeptReaders,
    NamedCredentials,
    named_by,
    role,
    role_bindings,
    role_of,
)
from stoker_operator.core.dataset_decision import Decision
from stoker_operator.core.plan import DatasetPlan
from stoker_operator.core.steps import Steps
from stoker_operator.core.views import ClusterView
from stoker_operator.mirror.grants import trim_grant
from stoker_operator.mirror.state import ClusterState, MirrorTable
from stoker_operator.reconcilers.node_accounts import account_key
from stoker_operator.reconcilers.turns import KeyedAction
from stoker_operator.writer import Writer

AT_ONCE = 8  # writes for one Role: of a hundred nodes that join, sixty bindings change
_COMPARED = ("rules", "roleRef", "subjects")
_Row = tuple[Kind, str, str]  # kind, namespace, name
_Bodies = list[tuple[Kind, Object]]


@dataclass
class _Change:
    """What is to be written for one Role and its bindings: first what goes, then what comes."""

    delete: list[_Row] = field(default_factory=list)
    apply: _Bodies = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _RightsSeen:
    """Whether all nodes of a Dataset could read what it names, by the rights that the mirror had at ``stamp``."""

    plan: DatasetPlan
    named: tuple[NamedCredentials, ...]
    stamp: tuple[int, ...]
    answer: bool

    def still_holds(self, plan: DatasetPlan, named: tuple[NamedCredentials, ...], stamp: tuple[int, ...]) -> bool:
        """Tell whether another plan asks the same."""
        return self.stamp == stamp and self.plan.nodes() is plan.nodes() and self.named == named


class CredentialRights:
    """Roles and RoleBindings, compared with the mirror of them pass by pass.

    So what an earlier leader made, or someone changed by hand, is put right like anything else. Stoker is installed in
    ``own_namespace``.
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
        # What was worked out last: passes are many, and it changes rarely.
        self._readers: Final = KeptReaders()
        self._bodies: Final[dict[NamedCredentials, _Bodies]] = {}
        self._basis: object = None
        self._actions: list[KeyedAction] = []
        self._written: Final[dict[str, _RightsSeen]] = {}
        self._seen: tuple[int, ...] = ()
        self._old_role = (0, False)  # whether there is one, by that many changes of Roles
        self._homes: Final[dict[str, str]] = {}  # namespaces of Datasets that stay, by key
        self._staying: Final[Counter[str]] = Counter()  # how many of those are in each

    def actions(self, decision: Decision) -> Generator[None, None, list[KeyedAction]]:
        """Return, after steps of some milliseconds, what would write the rights that differ."""
        view, plans = decision.view, decision.plans
        for key in decision.changed:
            self._note_home(key, view.datasets.get(key))
            if key not in plans:
                self._written.pop(key, None)
        changed = yield from self._readers.update(view, plans, decision.changed)
        for named in changed:
            yield from self._settle(named)
            yield
        staying = frozenset(self._staying)
        basis = (self._stamp(), staying, self._has_old_sidecars(view) if self._has_old_role() else False)
        if changed or basis != self._basis:
            actions: list[KeyedAction] = []
            for some in self._differing(staying, old=basis[2]):
                actions += some
                yield
            self._basis, self._actions = basis, actions
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
        """Tell whether the mirror's rights and accounts are others than when this was asked last."""
        before, self._seen = self._seen, self._stamp()
        return before != self._seen

    def _settle(self, named: NamedCredentials) -> Steps[None]:
        nodes = self._readers.nodes(named)
        if not nodes:
            self._bodies.pop(named, None)
            return
        bindings = yield from role_bindings(named, nodes, self._accounts)
        self._bodies[named] = [(ROLES, role(named)), *((ROLE_BINDINGS, body) for body in bindings)]

    def _stamp(self) -> tuple[int, ...]:
        """Return what changes with what the mirror has of rights and accounts."""
        return self._state.roles.changes, self._state.role_bindings.changes, self._state.node_accounts.changes

    def _differing(self, staying: Collection[str], *, old: bool) -> Iterator[list[KeyedAction]]:
        there = self._there()
        for named, bodies in self._bodies.items():
            known = there.pop((named.namespace, named.role), {})
            # Where all Datasets are being deleted the namespace may be, too, and nothing can be made there any more.
            change = _difference(bodies, known, may_create=named.namespace in staying)
            yield self._action(rights_key(named), named.namespace, change)
        for (namespace, name), known in there.items():
            if name != names.CREDENTIALS_ROLE or not old:
                yield self._action(f"Role {namespace}/{name}", namespace, _difference([], known))

    def is_written(self, plan: DatasetPlan) -> bool:
        """Tell whether all nodes that are to have this Dataset may read what it names, as far as the mirror knows."""
        known, stamp = self._written.get(plan.dataset.key), self._stamp()
        if known is not None and known.plan is plan and known.stamp == stamp:
            return known.answer
        home, credentials = plan.dataset.metadata.namespace, plan.dataset.spec.source.credentials
        found = tuple(named_by(home, credentials))
        if not found:
            answer = True
        elif known is not None and known.still_holds(plan, found, stamp):
            answer = known.answer  # thousands of nodes are not looked through for what one of them reports
        else:
            answer = self._is_written(plan, found)
        self._written[plan.dataset.key] = _RightsSeen(plan, found, stamp, answer)
        return answer

    def _is_written(self, plan: DatasetPlan, found: Sequence[NamedCredentials]) -> bool:
        nodes, has_account = plan.nodes(), self._state.node_accounts.get
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
        """Return what the mirror has, by namespace and name of the Role."""
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
        # What is bound goes after its bindings, and comes before them.
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
        """Tell whether sidecars of an earlier version run, which read credentials in their common name."""
        sidecars = (pod for pod in view.pods.values() if pod.sidecar and pod.namespace == self._own)
        return any(names.LABEL_NODE_ACCOUNT not in pod.labels for pod in sidecars if not pod.finished)


async def _side_by_side(writes: Sequence[Callable[[], Awaitable[None]]]) -> None:
    """Make the writes, a few at a time. All are tried; raises what the first that failed raised."""
    turns = asyncio.Semaphore(AT_ONCE)

    async def one(write: Callable[[], Awaitable[None]]) -> None:
        async with turns:
            await write()

    failed = [error for error in await asyncio.gather(*map(one, writes), return_exceptions=True) if error is not None]
    if failed:
        raise failed[0]


def rights_key(named: NamedCredentials) -> str:
    """Name the writing of who may read it."""
    return f"rights to {named}"


def _difference(bodies: _Bodies, known: dict[_Row, Mapping[str, Any]], may_create: bool = True) -> _Change:
    change = _Change()
    for kind, body in bodies:
        row = (kind, body["metadata"]["namespace"], body["metadata"]["name"])
        there = known.pop(row, None)
        if there is None and not may_create:
            continue
        if there is not None and there.get("roleRef") != body.get("roleRef"):
            change.delete.append(row)  # the API server lets nobody change it
        if there is None or any(there.get(name) != body.get(name) for name in _COMPARED):
            change.apply.append((kind, body))
    change.delete += sorted(known, key=lambda row: row[0] is ROLES)  # bindings first
    return change

"""Faults of an API server for chosen objects at any step do not delay any other object.

The faults are refused, truncated, delayed and hanging requests. The test compares virtual time, so the passes of the
loops and the back-offs count, but not the speed of the machine.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker_api import names
from stoker_kube.errors import (
    Conflict,
    Expired,
    Forbidden,
    Invalid,
    KubeError,
    NotFound,
    Unauthorized,
    Unavailable,
)
from stoker_kube.resources import (
    DATASETS,
    EVENTS,
    JOBS,
    NODE_CACHES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    ROLE_BINDINGS,
    ROLES,
    SERVICES,
    TRAINING_JOBS,
    Kind,
)
from stoker_operator.core.plans.credentials_rbac import NamedCredentials
from tests.fakes.troubled_kube import Trouble
from tests.support.virtual_operator import VirtualOperator
from tests.support.virtual_time import run_virtual

GOOD, ODD = "canary", "odd"
TOLERANCE = 0.3  # seconds: one interval between passes, because faults shift the start of a pass
LONGEST = 900.0  # seconds in which the odd ones have converged, too, after the end of their fault
ERRORS = [
    Unauthorized(401, "Unauthorized", "who are you"),
    Forbidden(403, "Forbidden", "exceeded quota"),
    NotFound(404, "NotFound", "the namespace is gone"),
    Conflict(409, "Conflict", "changed"),
    Expired(410, "Gone", "too old"),
    KubeError(413, "RequestEntityTooLarge", "too large"),
    Invalid(422, "Invalid", "a policy says no"),
    Unavailable(429, "TooManyRequests", "later", retry_after=20.0),
    Unavailable(500, "InternalError", "failed calling webhook"),
    Unavailable(503, "ServiceUnavailable", "down"),
]
SPOILING = [error for error in ERRORS if error.status in (403, 413, 422, 500)]
KINDS = [
    DATASETS,
    EVENTS,
    JOBS,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    ROLES,
    ROLE_BINDINGS,
    SERVICES,
    TRAINING_JOBS,
]
VERBS = ("get", "create", "apply", "patch", "delete")
# Functions of the deciding half that raise for the odd objects, with the position of the decisive argument.
SPOILABLE = (
    "stoker_operator.core.incremental.dataset_decision.decide_listing",
    "stoker_operator.core.incremental.dataset_decision.roll_up_dataset",
    "stoker_operator.core.incremental.entries.node_dataset",
    "stoker_operator.core.placement.placement_draft.Draft.keep",
    "stoker_operator.core.incremental.placements.turn_of",
    "stoker_operator.core.gating.gating.read_demand",
    "stoker_operator.reconcilers.training_jobs.roll_up_job",
)


@dataclass(frozen=True)
class Oddness:
    """The fault of the odd objects, and their namespace."""

    home: str
    count: int
    troubles: tuple[Trouble, ...]
    spoilt: str = ""


def concerns_odd(verbs: tuple[str, ...], kinds: tuple[Kind, ...]) -> Any:
    """Make a condition on requests: whether one is about an odd object."""

    def concerns(verb: str, kind: Kind, namespace: str, name: str, _: Any) -> bool:
        return verb in verbs and kind in kinds and (namespace == ODD or ODD in name)

    return concerns


def holds_odd(verb: str, kind: Kind, _: str, __: str, body: Any) -> bool:
    """Return True if a NodeCache has an odd Dataset in its plan."""
    entries = body["spec"]["datasets"] if verb == "apply" and kind is NODE_CACHES else ()
    return any(ODD in entry["namespace"] or ODD in entry["name"] for entry in entries)


@st.composite
def troubles(draw: st.DrawFn) -> Trouble:
    if draw(st.integers(0, 4)) == 0:
        return Trouble(holds_odd, error=draw(st.sampled_from(SPOILING)))
    kinds = draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=4).map(tuple) | st.just(tuple(KINDS)))
    verbs = draw(st.just(VERBS) | st.sampled_from(VERBS).map(lambda verb: (verb,)))
    concerns = concerns_odd(verbs, kinds)
    match draw(st.sampled_from(["refuse", "delay", "hang", "truncate"])):
        case "refuse":
            return Trouble(concerns, error=draw(st.sampled_from(ERRORS)))
        case "delay":
            return Trouble(concerns, seconds=draw(st.floats(0.1, 60.0)))
        case "hang":
            return Trouble(concerns, hangs=True)
    return Trouble(concerns, truncated=True)


@st.composite
def oddnesses(draw: st.DrawFn) -> Oddness:
    home = draw(st.sampled_from([ODD, ODD, GOOD]))
    # A Dataset, a pod and a TrainingJob each: in one namespace, four hanging objects would take all slots for a while.
    count = draw(st.integers(1, 6)) if home == ODD else 1
    found = draw(st.lists(troubles(), min_size=1, max_size=3).map(tuple))
    return Oddness(home, count, found, draw(st.sampled_from(["", "", *SPOILABLE])))


@contextmanager
def spoilt(where: str) -> Iterator[None]:
    """Make a function raise if one of its arguments is about an odd object."""
    with ExitStack() as stack:
        if where:
            owner, _, attribute = where.rpartition(".")
            module, _, class_name = owner.rpartition(".") if owner.endswith("Draft") else (owner, "", "")
            target: Any = __import__(module, fromlist=["x"])
            target = getattr(target, class_name) if class_name else target
            original = getattr(target, attribute)

            def odd(*args: Any, **kwargs: Any) -> Any:
                if any(is_odd(arg) for arg in args):
                    raise ArithmeticError("odd")
                return original(*args, **kwargs)

            stack.enter_context(mock.patch.object(target, attribute, odd))
        yield


def is_odd(arg: Any) -> bool:
    """Return True if an argument is an odd Dataset, pod or TrainingJob, or contains one."""
    holder = getattr(arg, "dataset", arg)
    key = getattr(holder, "key", "")
    return isinstance(key, str) and ODD in key


async def populate(world: VirtualOperator, oddness: Oddness) -> None:
    """Make the canary's objects and the odd ones, which come first."""
    for node in ("a", "b"):
        await world.add_node(node)
    odd = [(oddness.home, f"{ODD}-{number}") for number in range(oddness.count)]
    for namespace, name in [*odd, (GOOD, "data")]:
        await world.add_dataset(namespace, name, cache={"replicas": "all"})
        await world.add_pod(namespace, name, name)
        await world.add_training_job(namespace, f"{name}-job", name)
    await world.add_dataset(GOOD, "leaving", cache={"replicas": "all"})


def found(world: VirtualOperator, kind: Kind, name: str) -> dict[str, Any]:
    """Return an object of the canary's namespace, or empty."""
    items = world.kube.objects(kind)
    mine = (one for one in items if one["metadata"].get("namespace") == GOOD and one["metadata"]["name"] == name)
    return next(mine, {})


def is_well(world: VirtualOperator) -> bool:
    """Return True if all requests of the canary's objects are done and reported."""
    phases = {found(world, DATASETS, name).get("status", {}).get("phase") for name in ("data", "leaving")}
    annotations = found(world, PODS, "data")["metadata"]["annotations"]
    told = {one["reason"] for one in world.kube.objects(EVENTS) if one["involvedObject"]["name"] == "data"}
    return (
        phases == {"Ready"}
        and names.ANNOTATION_RELEASED in annotations
        and bool(found(world, JOBS, "data-job"))
        and bool(found(world, TRAINING_JOBS, "data-job").get("status", {}).get("conditions"))
        and bool(found(world, PERSISTENT_VOLUME_CLAIMS, "data"))
        and bool(found(world, ROLES, NamedCredentials(GOOD, "Secret", "keys").role))
        and {"Warm", "Released"} <= told
    )


async def times(oddness: Oddness) -> tuple[float, float]:
    """Return the time until the canary's objects are done and its second Dataset is deleted."""
    world = VirtualOperator()
    await populate(world, oddness)
    world.kube.troubles = list(oddness.troubles)
    with spoilt(oddness.spoilt):
        world.run()
        well = await world.until(lambda: is_well(world))
        world.kube.troubles = []
        for namespace, name in ((GOOD, "leaving"), (oddness.home, f"{ODD}-0")):
            await world.kube.delete(DATASETS, name, namespace)
        world.kube.troubles = list(oddness.troubles)
        gone = await world.until(lambda: not found(world, DATASETS, "leaving"))
    world.check()
    await world.stop()
    return well, gone


@cache
def untroubled(home: str, count: int) -> tuple[float, float]:
    """Return the same without faults."""
    return run_virtual(times(Oddness(home, count, ())))


@settings(max_examples=60)
@given(oddnesses())
@pytest.mark.expected_logs(".")
def test_the_trouble_of_some_objects_delays_no_other(oddness: Oddness) -> None:
    expected = untroubled(oddness.home, oddness.count)
    actual = run_virtual(times(oddness))
    assert actual[0] <= expected[0] + TOLERANCE
    assert actual[1] <= expected[1] + TOLERANCE


@settings(max_examples=20)
@given(oddnesses())
@pytest.mark.expected_logs(".")
def test_they_recover_once_their_trouble_is_over(oddness: Oddness) -> None:
    async def main() -> None:
        world = VirtualOperator()
        await populate(world, oddness)
        world.kube.troubles = list(oddness.troubles)
        with spoilt(oddness.spoilt):
            world.run()
            await world.until(lambda: is_well(world))
        world.kube.troubles = []
        seconds = await world.until(lambda: all_ready(world))
        await world.stop()
        assert seconds < LONGEST

    run_virtual(main())


def all_ready(world: VirtualOperator) -> bool:
    """Return True if every Dataset is Ready and every pod released."""
    pods = [pod for pod in world.kube.objects(PODS) if names.LABEL_MANAGED in pod["metadata"].get("labels", {})]
    released = all(names.ANNOTATION_RELEASED in pod["metadata"]["annotations"] for pod in pods)
    return released and all(one.get("status", {}).get("phase") == "Ready" for one in world.kube.objects(DATASETS))

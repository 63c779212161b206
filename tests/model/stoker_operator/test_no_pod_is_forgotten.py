"""After any events and delays while pods are gated, all of them are released once data is warm and room exists."""

import asyncio
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker_api import names
from stoker_kube.api import Object
from stoker_kube.errors import Conflict, Invalid, KubeError, NotFound, Unavailable
from stoker_kube.resources import PODS
from stoker_operator.core.views.cluster import parse_pod
from tests.support.virtual_time import run_virtual
from tests.unit.stoker_operator.clusters import node
from tests.unit.stoker_operator.gate_world import World

ERRORS: list[KubeError] = [
    Conflict(409, "Conflict", "changed"),
    NotFound(404, "NotFound", "not served for a moment"),
    Invalid(422, "Invalid", "a test of the patch fails"),
    Unavailable(503, "Unavailable", "down"),
]
ROUNDS = 20  # until the back-off of failures, with those that follow it, is over
ROUND = 5.0  # seconds: in total less than the 10 minutes after which pods start cold
MOST_ERRORS = 3  # consecutive failures: with more, the back-off is longer than those rounds
CROWD = 24  # pods: more than the 20 concurrent writes of one namespace, so that some wait for their turn
STEPS = ["pod", "crowd", "pass", "pass", "pass", "warm", "warm", "cold", "room", "full"]
STEPS += ["turn", "answer", "answers", "answers", "label", "bind"]
STEP = st.sampled_from(STEPS) | st.sampled_from(ERRORS)


class _Late:
    """A cluster whose API server answers writes of pods on request."""

    def __init__(self) -> None:
        self.world = World()
        self._make_room(100)
        self.pods = 0
        self._errors: list[KubeError] = []
        self._answers = asyncio.Semaphore(0)
        self._patch = self.world.kube.patch

    async def patch(self, *words: Any, **more: Any) -> Object:
        await self._answers.acquire()
        if self._errors:
            raise self._errors.pop(0)
        return await self._patch(*words, **more)

    async def take(self, step: str | KubeError) -> None:
        world, number = self.world, max(0, self.pods - 1)
        if isinstance(step, KubeError):
            self._errors += [step] if len(self._errors) < MOST_ERRORS else []
        elif step in ("pod", "crowd"):
            for _ in range(1 if step == "pod" else CROWD):
                await world.add_pod(f"p{self.pods}", cpu="1")
                self.pods += 1
        elif step in ("room", "full"):
            self._make_room(100 if step == "room" else 1)
        elif step == "pass":
            await world.gate.reconcile()
        elif step in ("warm", "cold"):
            world.warm(1.0 if step == "warm" else 0.5)
        elif step == "turn":
            await asyncio.sleep(0)
        elif step in ("answer", "answers"):
            self.answer(1 if step == "answer" else 10)
            await asyncio.sleep(0.01)
        elif self.pods and step == "label":
            await self._write(f"p{number // 2}", {"metadata": {"labels": {"by": "others"}}})
        elif self.pods and step == "bind":
            await self._bind()

    def _make_room(self, slots: int) -> None:
        self.world.state.nodes.put("a", node("a", slots=slots))

    def answer(self, count: int) -> None:
        for _ in range(count):
            self._answers.release()

    async def _bind(self) -> None:
        for pod in self.world.kube.objects(PODS):
            if not _is_held(pod) and not pod["spec"].get("nodeName"):
                await self._write(
                    pod["metadata"]["name"], {"spec": {"nodeName": "a"}, "status": {"phase": "Succeeded"}}
                )

    async def _write(self, name: str, change: Object) -> None:
        written = await self._patch(PODS, name, change, "vision")
        self.world.state.pods.put(f"vision/{name}", parse_pod(written))

    async def settle(self) -> None:
        """Make the data warm, with room for all, and answer every write."""
        self.answer(10_000)
        self._make_room(1000)
        self.world.warm()
        for _ in range(ROUNDS):
            await self.world.step()
            self.world.now += ROUND

    def held(self) -> list[str]:
        return [pod["metadata"]["name"] for pod in self.world.kube.objects(PODS) if _is_held(pod)]


def _is_held(pod: Object) -> bool:
    return any(gate["name"] == names.GATE_WARM for gate in pod["spec"].get("schedulingGates") or ())


@pytest.mark.expected_logs("failed, trying again", "could not be nominated")
@settings(max_examples=300, deadline=None)
@given(steps=st.lists(STEP, max_size=40))
def test_every_held_pod_goes_once_there_is_a_warm_node_with_room(steps: list[str | KubeError]) -> None:
    async def main() -> list[str]:
        late = _Late()
        with mock.patch.object(late.world.kube, "patch", late.patch):
            for step in steps:
                await late.take(step)
            await late.settle()
            await late.world.gate.work.close()
        return late.held()

    assert run_virtual(main()) == []

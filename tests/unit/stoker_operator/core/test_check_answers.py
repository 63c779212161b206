"""Kueue plays together with the answers to its check. Cold data holds no quota, and no Workload gets lost."""

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker_api import names
from stoker_api.times import format_time, parse_time
from stoker_operator.core.kueue.check_answers import HOLD, decide_answer, status_patch
from stoker_operator.core.kueue.kueue_objects import CHECK_MANAGER, QueuedWorkload, parse_workload
from stoker_operator.core.kueue.warm_check import Outlook, StartVerdict
from tests.unit.stoker_operator.builders import NOW
from tests.unit.stoker_operator.kueue import make_workload

STEP = 1.0  # seconds
SETTLED = 8  # steps: more than Kueue and the answers need to settle


@dataclass
class PlayedKueue:
    """Simulates one Workload as Kueue 0.14 does, step by step: scheduler, evictions and back-off."""

    now: float = NOW
    quota: bool = True  # enough for this Workload
    raw: dict[str, Any] = field(default_factory=make_workload)
    evictions: int = 0
    ready_at: float = 0.0  # time at which the check became ready

    @property
    def workload(self) -> QueuedWorkload:
        return parse_workload(self.raw)

    @property
    def admitted(self) -> bool:
        return self.is_true("Admitted")

    @property
    def check(self) -> dict[str, Any]:
        row: dict[str, Any] = self.raw["status"]["admissionChecks"][0]
        return row

    def is_true(self, kind: str) -> bool:
        return self._said(kind)[0] == "True"

    def step(self) -> None:
        self.now += STEP
        if self.admitted:
            return
        if self.is_true("QuotaReserved"):
            self._with_quota()
        elif self._said("Requeued") in (("False", "AdmissionCheck"), ("False", "PodsReadyTimeout")):
            self._back_off()
        elif self.quota:
            self.say("QuotaReserved", "True")
            self.say("Evicted", "False")

    def apply(self, body: dict[str, Any]) -> None:
        """Apply a written object, like a server-side apply."""
        was = self.check["state"]
        self.raw["status"] |= body["status"]
        if was != self.check["state"] == "Ready":
            self.ready_at = self.now
        fields: dict[str, Any] = {
            "f:status": {f"f:{part}": {"f:requeueAt": {}} for part in body["status"] if part == "requeueState"}
        }
        self.raw["metadata"]["managedFields"] = [{"manager": CHECK_MANAGER, "fieldsV1": fields}]

    def _with_quota(self) -> None:
        if self.is_true("Evicted"):
            self.say("QuotaReserved", "False")
            self.say("Requeued", "False", "AdmissionCheck")
        elif self.check["state"] == "Retry":
            self.say("Evicted", "True")
            self.evictions += 1
            self._reset()
        elif self.check["state"] == "Ready":
            self.say("Admitted", "True")

    def send_back(self, reason: str, seconds: float) -> None:
        """Evict the Workload for a cause other than the check, until Kueue or that cause requeues it."""
        for kind in ("Admitted", "QuotaReserved"):
            self.say(kind, "False")
        self.say("Evicted", "True")
        self.say("Requeued", "False", reason)
        self.raw["status"]["requeueState"] = {"requeueAt": format_time(self.now + seconds)}
        self.raw["metadata"]["managedFields"] = []
        self._reset()

    def _reset(self) -> None:
        if self.check["state"] != "Pending":
            message = f"Reset to Pending after eviction. Previously: {self.check['state']}"
            # podSetUpdates of the check stay: a server-side apply takes no field from another owner.
            self.check.update(state="Pending", message=message, lastTransitionTime=format_time(self.now))

    def _back_off(self) -> None:
        if parse_time(self.raw["status"].get("requeueState", {}).get("requeueAt")) <= self.now:
            self.say("Requeued", "True", "BackoffFinished")

    def _said(self, kind: str) -> tuple[str, str]:
        rows = (one for one in self.raw["status"]["conditions"] if one["type"] == kind)
        return next(((one["status"], one["reason"]) for one in rows), ("", ""))

    def say(self, kind: str, status: str, reason: str = "Any") -> None:
        """Set a condition."""
        rows = [one for one in self.raw["status"]["conditions"] if one["type"] != kind]
        row = {"type": kind, "status": status, "reason": reason, "lastTransitionTime": format_time(self.now)}
        self.raw["status"]["conditions"] = [*rows, row]


def turn(kueue: PlayedKueue, *, warm: bool, away: bool = False) -> None:
    """Let Kueue make a step. Then the operator answers, unless it is away."""
    kueue.step()
    workload = kueue.workload
    if away or not workload.checks:
        return
    verdict = StartVerdict(Outlook.READY, "warm", waiting=("main",)) if warm else StartVerdict(Outlook.WAIT, "cold")
    answer = decide_answer(workload, workload.checks[0], verdict, kueue.now)
    if answer is not None:
        kueue.apply(status_patch(workload, [answer], workload.checks, kueue.now))


@given(cold=st.integers(SETTLED, int(3 * HOLD)))
@settings(max_examples=8)
def test_quota_is_held_for_a_moment_however_long_the_data_takes(cold: int) -> None:
    kueue, held = PlayedKueue(), 0
    for _ in range(cold):
        turn(kueue, warm=False)
        held += kueue.is_true("QuotaReserved")
    assert held <= 3
    assert kueue.evictions == 1
    for _ in range(SETTLED):
        turn(kueue, warm=True)
    assert kueue.admitted


@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.booleans(), st.integers(1, 40)), max_size=30))
@settings(deadline=None, max_examples=40)
def test_a_workload_starts_warm_and_is_never_lost(story: list[tuple[bool, bool, bool, int]]) -> None:
    kueue, turned_cold, before = PlayedKueue(), 1, False
    for warm, quota, away, steps in story:
        turned_cold += (before and not warm) or away  # after a long absence, the Workload returns and is sent back
        kueue.quota, before = quota, warm
        for _ in range(steps):
            asked_cold = not warm and not kueue.admitted
            turn(kueue, warm=warm, away=away)
            # An answer from the time when the data was warm can still admit it.
            assert not (asked_cold and kueue.admitted and kueue.check["message"] == "cold")
    assert kueue.evictions <= turned_cold
    kueue.quota = True
    for _ in range(int(HOLD) + SETTLED):
        turn(kueue, warm=True)
    assert kueue.admitted


@given(cold=st.integers(SETTLED, 2 * SETTLED), queued=st.integers(0, 3 * SETTLED))
@settings(deadline=None, max_examples=25)
def test_pods_get_the_wait_for_data_without_the_wait_for_quota(cold: int, queued: int) -> None:
    kueue = PlayedKueue()
    for steps, warm, quota in ((cold, False, True), (SETTLED + queued, True, False), (SETTLED, True, True)):
        kueue.quota = quota
        for _ in range(steps):
            turn(kueue, warm=warm)
    (update,) = kueue.check["podSetUpdates"]
    told = update["annotations"][names.ANNOTATION_WAITED]
    since, until = (parse_time(part) for part in told.split("/"))
    assert cold - 3 * STEP <= until - since <= cold + 3 * STEP  # the wait starts when Kueue has taken the quota back
    assert until == kueue.ready_at


def run(kueue: PlayedKueue, steps: int, *, warm: bool) -> None:
    for _ in range(steps):
        turn(kueue, warm=warm)


def told_wait(kueue: PlayedKueue) -> float:
    """Return the seconds of waiting in the annotations for the pods."""
    assert kueue.admitted
    notes = [one["annotations"][names.ANNOTATION_WAITED] for one in kueue.check.get("podSetUpdates", ())]
    times = [[parse_time(part) for part in note.split("/")] for note in notes]
    return sum(until - since for since, until in times)


@pytest.mark.parametrize("reason", ["PodsReadyTimeout", "AdmissionCheck"])
@given(cold=st.integers(SETTLED, 2 * SETTLED), ran=st.integers(0, 100), seconds=st.integers(0, 100))
@settings(deadline=None, max_examples=15)
def test_what_it_waits_for_other_causes_is_no_wait_for_data(reason: str, cold: int, ran: int, seconds: int) -> None:
    kueue = PlayedKueue()
    run(kueue, cold, warm=False)
    run(kueue, SETTLED + ran, warm=True)
    assert told_wait(kueue) > 0
    kueue.send_back(reason, seconds)
    run(kueue, seconds + SETTLED, warm=True)
    assert told_wait(kueue) == 0


@given(ran=st.integers(0, 100), seconds=st.integers(0, 100), cold=st.integers(SETTLED, 2 * SETTLED))
@settings(deadline=None, max_examples=15)
def test_only_the_wait_for_data_counts_after_evictions_by_other_controllers(ran: int, seconds: int, cold: int) -> None:
    kueue = PlayedKueue()
    run(kueue, SETTLED + ran, warm=True)
    kueue.send_back("PodsReadyTimeout", seconds)
    run(kueue, seconds + cold, warm=False)
    run(kueue, SETTLED, warm=True)
    assert cold - 2 * STEP <= told_wait(kueue) <= cold + 2 * STEP


@given(st.floats(0, 10 * HOLD))
def test_what_another_check_holds_back_is_not_brought_forward(seconds: float) -> None:
    kueue = PlayedKueue()
    kueue.raw["status"] |= {"requeueState": {"requeueAt": format_time(NOW + seconds)}}
    kueue.say("Requeued", "False", "AdmissionCheck")
    turn(kueue, warm=True)
    assert kueue.raw["status"]["requeueState"]["requeueAt"] == format_time(NOW + seconds)

"""Roll up the status of a TrainingJob from its Job and its pods."""

from collections.abc import Iterable, Sequence

from stoker_api.goodput import Goodput
from stoker_api.jobs.trainingjob import JobPhase, TrainingJob, TrainingJobStatus, TrainingProgress
from stoker_api.meta import Condition, shortened
from stoker_api.names import ConditionType, Reason
from stoker_api.node_caches.node_workload import (
    PLUGIN_TROUBLE,
    READERS_SOUGHT,
    RECORDS_UNSEEN,
    NodeWorkload,
    OrderSource,
)
from stoker_api.times import format_time, parse_time
from stoker_operator.core.fitting.pod_demand import Unmet
from stoker_operator.core.jobs.job_facts import JobFacts, coldest, holds, nodes_at_release, read_release
from stoker_operator.core.jobs.job_goodput import job_goodput
from stoker_operator.core.jobs.jobs import FINISHED, job_end
from stoker_operator.core.jobs.training_progress import final_progress, training_progress
from stoker_operator.core.views.conditions import ConditionSet, Status, find
from stoker_orders.following import OrderState

_MOST_SENTENCE = 400
Verdict = tuple[Status, Reason | str, str]


def lasting_verdict(old: Condition | None, workloads: Sequence[NodeWorkload], workers: Iterable[str]) -> Verdict:
    """Return the verdict of these rows, or the last verdict on observed reads.

    Rows lose their order at the end. ``workers``: namespace/name of the pods without a replacement, with or without a
    row.
    """
    fresh = order_verdict(workloads)
    if old is None or old.status == "Unknown":
        return fresh
    last: Verdict = (old.status, old.reason, old.message)
    if fresh[0] == "Unknown":
        return fresh if any(_explains(row) for row in workloads) else last
    without_row = set(workers) - {row.pod for row in workloads}
    is_left = any(old.message.startswith(f"{pod} ") for pod in without_row)
    return last if old.status == "False" and is_left else fresh


def order_verdict(workloads: Sequence[NodeWorkload]) -> tuple[Status, Reason, str]:
    """Return status, reason and message of the condition Order. One worker with a different order decides."""
    said = [row for row in workloads if row.order]
    wrong = next((row for row in said if row.order == OrderState.WRONG), None)
    if wrong is not None:
        why = shortened(wrong.order_message, _MOST_SENTENCE)
        return "False", Reason.ORDER_WRONG, f"{wrong.pod} reads in another order, and the hint is dropped: {why}"
    known = [row for row in said if row.order == OrderState.KNOWN]
    if not known:
        why = next((row.order_message for row in said if _explains(row)), "")
        too_few = "too few reads to compare them with the order of sampling"
        return "Unknown", Reason.ORDER_UNKNOWN, shortened(why, _MOST_SENTENCE) or too_few
    least = min(row.order_agreement or 0 for row in known)
    counted = f"{len(known)} of {len(workloads)} workers"
    said_by = "they report" if all(row.order_source is OrderSource.REPORT for row in known) else "sampling says"
    return "True", Reason.ORDER_KNOWN, f"{least} % of the last reads of {counted} came as {said_by}"


def _explains(row: NodeWorkload) -> bool:
    """Return True if a node explains an unknown order with more than too few reads."""
    if not row.order:
        return False
    told = row.order_message.startswith((PLUGIN_TROUBLE, READERS_SOUGHT, RECORDS_UNSEEN))
    return told or row.order_source is OrderSource.REPORT


_DATA_PROBLEMS = frozenset(
    {Reason.DATASET_NOT_FOUND, Reason.ACCESS_NOT_GRANTED, Reason.LISTING, Reason.VERSION_NOT_FOUND}
)

# Reasons of releases onto nodes without the data.
_COLD = {
    one.value: one for one in (Reason.MAX_WAIT_PASSED, Reason.MANUAL, Reason.PAUSED, Reason.NAMESPACE_QUOTA_EXCEEDED)
}


def roll_up_job(training: TrainingJob, facts: JobFacts, now: float) -> TrainingJobStatus:
    """Return the new status. ``now``: seconds since the epoch. Transition times stay while nothing changes."""
    old = training.status
    if old.phase in FINISHED:
        # Its result stays, even after its Job is deleted.
        return old if facts.job is None else _of_finished(training, facts, old.phase, now)
    phase = _phase(training, facts)
    total, active = training.spec.workers, min(facts.count("ready") + facts.succeeded, training.spec.workers)
    nodes, completed = nodes_at_release(facts.pods), _completion_time(facts, now) if phase in FINISHED else None
    return TrainingJobStatus(
        phase=phase,
        observed_generation=training.metadata.generation,
        conditions=_conditions(training, facts, phase, now),
        replicas=total,
        ready=facts.count("ready"),
        succeeded=facts.count("succeeded"),
        failed=facts.count("failed"),
        workers=f"{active}/{total}",
        data=facts.data or old.data,
        datasets=old.datasets,
        nodes=coldest(nodes) or old.nodes,
        node_count=len(nodes) or old.node_count,
        goodput=_goodput(old, facts, completed, now),
        training=_progress(old, facts, phase, now),
        start_time=facts.status.get("startTime") or old.start_time,
        completion_time=completed,
    )


def _of_finished(training: TrainingJob, facts: JobFacts, phase: JobPhase, now: float) -> TrainingJobStatus:
    """Return the status of a job that ended before. Only nodes' reports on its pods are added."""
    old, known = training.status, training.status.goodput
    changes: dict[str, object] = {"observed_generation": training.metadata.generation}
    changes["conditions"] = _settled(training, now)
    if (known is None and facts.tries) or (known is not None and not known.complete):
        changes["goodput"] = _goodput(old, facts, old.completion_time, now)
        # Objects of awaited pods may be deleted.
        gone = {pod.uid for pod in (known.awaited if known else ())} - {pod.uid for pod in facts.tries}
        final = facts.final_rows(gone)
        changes["training"] = final_progress(old.training, final, phase, now) if final.last else old.training
    return old.model_copy(update=changes)


def _settled(training: TrainingJob, now: float) -> tuple[Condition, ...]:
    """Return the conditions of an ended job, without later failures of a spec or a write."""
    generation = training.metadata.generation
    accepted = ConditionSet(training.status.conditions, generation, now)
    _set_accepted(accepted, None)
    return tuple(
        accepted.result()[0]
        if one.type == ConditionType.ACCEPTED and one.status != "True"
        else one.model_copy(update={"observed_generation": generation})
        for one in training.status.conditions
        if one.type != ConditionType.RECONCILED
    )


def _progress(old: TrainingJobStatus, facts: JobFacts, phase: JobPhase, now: float) -> TrainingProgress | None:
    if phase in FINISHED:
        return final_progress(old.training, facts.worker_rows, phase, now)
    return training_progress(old.training, facts.worker_rows, now, facts.phases_in)


def _goodput(old: TrainingJobStatus, facts: JobFacts, completed: str | None, now: float) -> Goodput | None:
    end = parse_time(completed) if completed else None
    return job_goodput(old.goodput, facts.tries, holds(facts.tries), facts.ended, end, now)


def refused_status(
    old: TrainingJobStatus, generation: int, reason: Reason, sentence: str, now: float
) -> TrainingJobStatus:
    """Return the status of a job that does not parse or cannot be reconciled: the old status with Accepted=False."""
    return _with_false(old, generation, ConditionType.ACCEPTED, reason, sentence, now)


def unwritten_status(old: TrainingJobStatus, generation: int, sentence: str, now: float) -> TrainingJobStatus:
    """Return the status of a job with a refused write: the old status with the reason."""
    return _with_false(old, generation, ConditionType.RECONCILED, Reason.WRITE_FAILED, sentence, now)


def _with_false(
    old: TrainingJobStatus, generation: int, kind: ConditionType, reason: Reason, sentence: str, now: float
) -> TrainingJobStatus:
    conditions = ConditionSet(old.conditions, generation, now)
    conditions.set(kind, False, reason, sentence)
    rest = tuple(one for one in old.conditions if one.type != kind)
    return old.model_copy(update={"phase": old.phase or JobPhase.PENDING, "conditions": conditions.result() + rest})


def expires_at(training: TrainingJob, status: TrainingJobStatus) -> float | None:
    """Return when a finished TrainingJob expires, in seconds since the epoch. None: never."""
    ttl = training.spec.ttl_seconds_after_finished
    if ttl is None or status.phase not in FINISHED or not status.completion_time:
        return None
    return parse_time(status.completion_time) + ttl


def _phase(training: TrainingJob, facts: JobFacts) -> JobPhase:
    end = job_end(facts.job) if facts.job is not None else None
    if end is not None:
        return JobPhase.SUCCEEDED if end["type"] == "Complete" else JobPhase.FAILED
    if _suspended(training, facts):
        return JobPhase.SUSPENDED
    if facts.problem is not None:
        return JobPhase.WAITING_FOR_DATA if facts.problem.reason in _DATA_PROBLEMS else JobPhase.PENDING
    if facts.job is None or not (facts.pods or facts.count("active")):
        return JobPhase.PENDING
    return _phase_of_active(training, facts)


def _phase_of_active(training: TrainingJob, facts: JobFacts) -> JobPhase:
    ready, old = facts.count("ready"), training.status.phase
    if facts.held and not ready:
        return JobPhase.WAITING_FOR_DATA
    over = sum(pod.phase == "Succeeded" for pod in facts.pods)
    if max(facts.succeeded, over) >= training.spec.workers:  # the Job will report this shortly
        return old or JobPhase.STARTING
    if old is JobPhase.RUNNING:
        # Neither the replacement of one worker nor the end of containers is a new start.
        begun = any(pod.phase in ("Running", "Succeeded") for pod in facts.pods)
        return JobPhase.RUNNING if ready or begun else JobPhase.STARTING
    whole = ready + facts.succeeded >= training.spec.workers
    return JobPhase.RUNNING if ready and whole else JobPhase.STARTING


def _suspended(training: TrainingJob, facts: JobFacts) -> bool:
    return training.spec.suspend or bool(facts.job is not None and facts.job["spec"].get("suspend"))


def _conditions(training: TrainingJob, facts: JobFacts, phase: JobPhase, now: float) -> tuple[Condition, ...]:
    conditions = ConditionSet(training.status.conditions, training.metadata.generation, now)
    refused = facts.problem if facts.problem is not None and facts.problem.reason not in _DATA_PROBLEMS else None
    _set_accepted(conditions, refused)
    _set_data_ready(conditions, training, facts, phase)
    running = phase is JobPhase.RUNNING
    counts = f"{facts.count('ready')} of {training.spec.workers} workers are ready"
    conditions.set(ConditionType.RUNNING, running, Reason.RUNNING if running else phase.value, counts)
    _set_suspended(conditions, training, phase)
    _set_end(conditions, training, facts, phase)
    if facts.tuned is not None:
        conditions.set(ConditionType.TUNED, *facts.tuned)
    _set_order(conditions, training, facts)
    return conditions.result()


def _set_accepted(conditions: ConditionSet, refused: Unmet | None) -> None:
    if refused is not None:
        conditions.set(ConditionType.ACCEPTED, False, refused.reason, refused.sentence)
    else:
        conditions.set(ConditionType.ACCEPTED, True, Reason.ACCEPTED, "the spec is accepted")


def _set_order(conditions: ConditionSet, training: TrainingJob, facts: JobFacts) -> None:
    old = find(training.status.conditions, ConditionType.ORDER)
    known = old is not None and old.status != "Unknown"
    if training.spec.sampling is not None or known or any(row.order for row in facts.workloads):
        names = (pod.key for pod in facts.pods)
        conditions.set(ConditionType.ORDER, *lasting_verdict(old, facts.workloads, names))


def _set_data_ready(conditions: ConditionSet, training: TrainingJob, facts: JobFacts, phase: JobPhase) -> None:
    old = find(training.status.conditions, ConditionType.DATA_READY)
    if not training.spec.datasets:
        conditions.set(ConditionType.DATA_READY, True, Reason.READY, "no Dataset is needed")
    elif old is not None and phase in FINISHED:
        conditions.set(ConditionType.DATA_READY, old.status, old.reason, old.message)
    else:
        reason, sentence = _data_state(training, facts)
        conditions.set(ConditionType.DATA_READY, reason in (Reason.RELEASED, Reason.ON_DEMAND), reason, sentence)


def _data_state(training: TrainingJob, facts: JobFacts) -> tuple[Reason, str]:
    workers, exist = training.spec.workers, f"{len(facts.pods)} of {training.spec.workers} workers exist"
    if isinstance(facts.problem, Unmet) and facts.problem.reason in _DATA_PROBLEMS:
        return facts.problem.reason, facts.problem.sentence
    if facts.held:
        why = facts.held[0].waiting or f"{len(facts.held)} of {workers} workers are held"
        return Reason.WAITING_FOR_DATA, f"{exist}; {why}" if len(facts.pods) < workers else why
    if len(facts.pods) < workers:
        return Reason.WAITING_FOR_DATA, exist
    releases = [read_release(pod) for pod in facts.pods]
    cold = next((one for one in releases if one is not None and one.reason in _COLD), None)
    if cold is not None:
        return _COLD[cold.reason], cold.message
    if not any(releases):
        return Reason.ON_DEMAND, "the workers are not held, and data is fetched as they read it"
    warm = next(one for one in releases if one is not None)
    return Reason.RELEASED, f"{len(facts.pods)} of {workers} workers released; {warm.message}"


def _set_suspended(conditions: ConditionSet, training: TrainingJob, phase: JobPhase) -> None:
    if phase is not JobPhase.SUSPENDED:
        conditions.set(ConditionType.SUSPENDED, False, phase.value, "not suspended")
    elif training.spec.suspend:
        conditions.set(
            ConditionType.SUSPENDED, True, Reason.SUSPENDED, "spec.suspend is true: set it to false to continue"
        )
    else:
        text = "its Job is suspended, by a queue or a person: it continues when spec.suspend of the Job is false"
        conditions.set(ConditionType.SUSPENDED, True, Reason.SUSPENDED, text)


def _set_end(conditions: ConditionSet, training: TrainingJob, facts: JobFacts, phase: JobPhase) -> None:
    end = job_end(facts.job) if facts.job is not None else None
    done = f"{facts.count('succeeded')} of {training.spec.workers} workers succeeded"
    complete = phase is JobPhase.SUCCEEDED
    conditions.set(ConditionType.COMPLETE, complete, Reason.SUCCEEDED if complete else phase.value, done)
    if end is not None and phase is JobPhase.FAILED:
        reason = end.get("reason") or Reason.BACKOFF_LIMIT_EXCEEDED
        text = f"{end.get('message') or 'the Job failed'}; {facts.count('failed')} pods failed: see their logs"
        conditions.set(ConditionType.FAILED, True, reason, text)
    else:
        conditions.set(ConditionType.FAILED, False, phase.value, f"{facts.count('failed')} pods failed")


def _completion_time(facts: JobFacts, now: float) -> str:
    end = (job_end(facts.job) if facts.job is not None else None) or {}
    return facts.status.get("completionTime") or end.get("lastTransitionTime") or format_time(now, "milliseconds")

"""The status of a TrainingJob, rolled up from what its Job and its pods show."""

from typing import Any

from stoker_api.names import ConditionType, Reason
from stoker_api.times import format_time, parse_time
from stoker_api.trainingjob import JobPhase, TrainingJob, TrainingJobStatus
from stoker_operator.core.conditions import ConditionSet, find
from stoker_operator.core.job_facts import JobFacts, coldest, holds, nodes_at_release, read_release
from stoker_operator.core.job_goodput import job_goodput
from stoker_operator.core.job_order import order_verdict
from stoker_operator.core.jobs import FINISHED, job_end
from stoker_operator.core.pod_demand import Unmet
from stoker_operator.core.training_progress import training_progress

_DATA_PROBLEMS = frozenset(
    {Reason.DATASET_NOT_FOUND, Reason.ACCESS_NOT_GRANTED, Reason.LISTING, Reason.VERSION_NOT_FOUND}
)


def roll_up_job(training: TrainingJob, facts: JobFacts, now: float) -> TrainingJobStatus:
    """Return the new status. ``now`` in seconds since the epoch; transition times are kept where nothing changed."""
    old = training.status
    if old.phase in FINISHED and facts.job is None:
        return old  # the Job was cleaned away: what it came to stays true
    phase = _phase(training, facts)
    ready, total = facts.count("ready"), training.spec.workers
    nodes, completed = nodes_at_release(facts.pods), _completion_time(facts, now) if phase in FINISHED else None
    return TrainingJobStatus(
        phase=phase,
        observed_generation=training.metadata.generation,
        conditions=_conditions(training, facts, phase, now),
        replicas=total,
        ready=ready,
        succeeded=facts.count("succeeded"),
        failed=facts.count("failed"),
        workers=f"{ready}/{total}",
        data=facts.data or old.data,
        datasets=old.datasets,
        nodes=coldest(nodes) or old.nodes,
        node_count=len(nodes) or old.node_count,
        goodput=job_goodput(
            old.goodput,
            facts.tries,
            holds(facts.tries),
            facts.ended,
            parse_time(completed) if completed else None,
            now,
        ),
        training=training_progress(old.training, facts.workloads, now),
        start_time=facts.status.get("startTime") or old.start_time,
        completion_time=completed,
    )


def refused_status(
    old: TrainingJobStatus, generation: int, reason: Reason, sentence: str, now: float
) -> TrainingJobStatus:
    """Return the status of one that does not parse or cannot be reconciled: what it was, with Accepted=False."""
    return _with_false(old, generation, ConditionType.ACCEPTED, reason, sentence, now)


def unwritten_status(old: TrainingJobStatus, generation: int, sentence: str, now: float) -> TrainingJobStatus:
    """Return the status of one for which the API server refused a write: what it was, and why."""
    return _with_false(old, generation, ConditionType.RECONCILED, Reason.WRITE_FAILED, sentence, now)


def _with_false(
    old: TrainingJobStatus, generation: int, kind: ConditionType, reason: Reason, sentence: str, now: float
) -> TrainingJobStatus:
    conditions = ConditionSet(old.conditions, generation, now)
    conditions.set(kind, False, reason, sentence)
    rest = tuple(one for one in old.conditions if one.type != kind)
    return old.model_copy(update={"phase": old.phase or JobPhase.PENDING, "conditions": conditions.result() + rest})


def expires_at(training: TrainingJob, status: TrainingJobStatus) -> float | None:
    """Return seconds since the epoch when a finished TrainingJob's time to live is over; None when it is kept."""
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
    ready = facts.count("ready")
    if facts.held and not ready:
        return JobPhase.WAITING_FOR_DATA
    done = facts.succeeded >= training.spec.workers  # and the Job will say so in a moment
    if training.status.phase is JobPhase.RUNNING:
        # While a failed worker is being replaced the others go on: that is not a new start, nor is the end one.
        return JobPhase.RUNNING if ready or done else JobPhase.STARTING
    whole = ready + facts.succeeded >= training.spec.workers
    return JobPhase.RUNNING if ready and whole else JobPhase.STARTING


def _suspended(training: TrainingJob, facts: JobFacts) -> bool:
    return training.spec.suspend or bool(facts.job is not None and facts.job["spec"].get("suspend"))


def _conditions(training: TrainingJob, facts: JobFacts, phase: JobPhase, now: float) -> Any:
    conditions = ConditionSet(training.status.conditions, training.metadata.generation, now)
    refused = facts.problem if facts.problem is not None and facts.problem.reason not in _DATA_PROBLEMS else None
    if refused is not None:
        conditions.set(ConditionType.ACCEPTED, False, refused.reason, refused.sentence)
    else:
        conditions.set(ConditionType.ACCEPTED, True, Reason.ACCEPTED, "the TrainingJob is taken into account")
    _set_data_ready(conditions, training, facts, phase)
    running = phase is JobPhase.RUNNING
    counts = f"{facts.count('ready')} of {training.spec.workers} workers are ready"
    conditions.set(ConditionType.RUNNING, running, Reason.RUNNING if running else phase.value, counts)
    _set_suspended(conditions, training, facts, phase)
    _set_end(conditions, training, facts, phase)
    if facts.tuned is not None:
        conditions.set(ConditionType.TUNED, *facts.tuned)
    if training.spec.sampling is not None or any(row.order for row in facts.workloads):
        conditions.set(ConditionType.ORDER, *order_verdict(facts.workloads))
    return conditions.result()


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
    cold = next((one for one in releases if one is not None and one.reason == Reason.MAX_WAIT_PASSED), None)
    if cold is not None:
        return Reason.MAX_WAIT_PASSED, cold.message
    if not any(releases):
        return Reason.ON_DEMAND, "the workers are not held: bytes come as they are read"
    warm = next(one for one in releases if one is not None)
    return Reason.RELEASED, f"{len(facts.pods)} of {workers} workers released; {warm.message}"


def _set_suspended(conditions: ConditionSet, training: TrainingJob, facts: JobFacts, phase: JobPhase) -> None:
    if phase is not JobPhase.SUSPENDED:
        conditions.set(ConditionType.SUSPENDED, False, phase.value, "it is not held")
    elif training.spec.suspend:
        conditions.set(
            ConditionType.SUSPENDED, True, Reason.SUSPENDED, "spec.suspend is true: set it to false to go on"
        )
    else:
        text = "its Job is suspended, by a queue or a person: it goes on when spec.suspend of the Job becomes false"
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

"""Steps 4 and 5: upgrade and kill Stoker under verifying readers, and drain the only warm node."""

import json
import time

from examples.demo import figures
from examples.demo.figures import Verification
from examples.demo.installation import upgrade
from examples.demo.session import NAMESPACE, PATIENCE, SYSTEM, Session, say, show

_READERS = {"verify-warm": "photos", "verify-cold": "unread"}


def break_it(session: Session) -> Verification | None:
    """Verify files while all sidecars and operators are replaced. Return what readers saw, or None if skipped."""
    say("4/7 Break it: two pods read and verify SHA-256, one warm files, one cold. Below them, all of Stoker restarts.")
    session.dataset("unread", warm={"policy": "Manual"}, scheduling={"mode": "None"})
    if not session.place.installed:
        say("    Skipped: the demo did not install this Stoker, and leaves it alone.")
        return None
    for job, dataset in _READERS.items():
        session.job(job, dataset, "verify.py", {})
    for job in _READERS:
        session.started(job)
    say("    helm upgrade replaces every sidecar; a new one takes over the mounts of the old one")
    upgrade(session.place)
    say("    kubectl delete pod kills both operators; running pods do not need them")
    kubectl = ("kubectl", "-n", SYSTEM)
    session.place.run(*kubectl, "delete", "pods", "-l", "app.kubernetes.io/component=operator", "--grace-period=1")
    session.place.run(*kubectl, "rollout", "status", "deployment/stoker-operator", f"--timeout={PATIENCE}s")
    seen = Verification.of([_stopped(session, job) for job in _READERS])
    show(seen.sentence())
    show(f"From the last lines of: kubectl -n {NAMESPACE} logs job/verify-warm (verify-cold)")
    return seen


def _stopped(session: Session, job: str) -> figures.Report:
    """Stop a reader and return its report."""
    session.kubectl("exec", f"job/{job}", "--", "touch", "/tmp/stop")
    session.until(f"job/{job} to end", lambda: session.phase(job) == "Succeeded")
    return session.report(job)


def drain(session: Session) -> str:
    """Drain the only node with the data of a running pod. Return a sentence with the result."""
    say("5/7 Drain the only warm node: its data moves first, and the pod starts again where the data is.")
    if reason := _forbidden(session):
        say(f"    Skipped: {reason}")
        return f"skipped: {reason}"
    session.job("mover", "photos", "verify.py", {})
    session.until("job/mover to run", lambda: session.node("mover"))
    node = session.node("mover")
    words = ("drain", node, "--pod-selector=job-name=mover", "--ignore-daemonsets", f"--timeout={PATIENCE}s")
    show(f"$ kubectl {' '.join(words)}")
    before, began = _copies(session), time.monotonic()
    try:
        session.kubectl(*words)
        session.until("job/mover to run on another node", lambda: session.node("mover") not in ("", node))
        seconds = time.monotonic() - began
        show(figures.without_events(session.stoker("why", "job/mover")))
        after = _copies(session)
    finally:
        session.kubectl("uncordon", node)
    result = (
        f"from {node} to {session.node('mover')} in {seconds:.0f} s; complete copies before: {before}; after: {after}."
    )
    show(f"The pod moved {result}")
    return result


def _copies(session: Session) -> str:
    return ", ".join(figures.warm_nodes(session.get("dataset", "photos")))


def _forbidden(session: Session) -> str:
    """Return why a node cannot be drained here, or empty."""
    nodes = json.loads(session.kubectl("get", "nodecaches", "-o", "json"))["items"]
    if len(nodes) < 2:
        return "a second node with a sidecar is needed."
    allowed = session.place.answers("kubectl", "auth", "can-i", "patch", "nodes")
    return "" if allowed else "it needs the right to patch nodes."

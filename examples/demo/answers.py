"""Step 6: `stoker why` for a wrong bucket, a paused Dataset and a wrong seed."""

from functools import partial

from examples.demo import figures
from examples.demo.session import BUCKET, Object, Session, say, show

_WAITING = "stoker.dev/waiting"


def ask(session: Session) -> None:
    """Make three mistakes, and print the answers of `stoker why`."""
    say("6/7 Ask why: three usual mistakes. The answer says what is wrong and what to do.")
    session.apply(session.manifest("trainingjob.yaml", "wrong-seed"))  # first, because its reads take the longest
    # Require: the pods stay held, so that the questions can be asked again.
    session.dataset("wrong-bucket", uri=f"s3://{BUCKET}-typo/photos/", scheduling={"mode": "Require"})
    session.dataset("paused", warm={"paused": True}, scheduling={"mode": "Require"})
    for name in ("wrong-bucket", "paused"):
        session.job(name, name, "train.py", {})
    session.until("the wrong bucket to be noticed", lambda: _reason(session.get("dataset", "wrong-bucket")))
    for name in ("wrong-bucket", "paused"):
        session.until(f"job/{name} to be held", partial(_waits, session, name))
        show(figures.without_events(session.stoker("why", f"job/{name}")))
    session.until("the wrong seed to be noticed", lambda: _order(session) in ("True", "False"))
    show(figures.without_events(session.stoker("why", "tj/wrong-seed")))


def _reason(dataset: Object) -> bool:
    return figures.condition(dataset, "Degraded") == "True"


def _waits(session: Session, job: str) -> bool:
    return any(_WAITING in pod["metadata"].get("annotations", {}) for pod in session.pods(job))


def _order(session: Session) -> str:
    return figures.condition(session.get("trainingjob", "wrong-seed"), "Order")

"""Steps 1 to 3: one epoch of the same training from a cold cache, with a known order, and from a warm cache."""

import json
from typing import Any

from examples.demo import figures
from examples.demo.figures import Epoch
from examples.demo.session import NAMESPACE, Session, say, show

SAMPLING: dict[str, Any] = {
    "sampler": "torch-distributed",
    "seed": 42,
    "batch": 32,
    "loaders": 2,
    "files": {"path": "train"},
}
_LINE = {"stoker.dev/sampling": json.dumps(SAMPLING)}
# Nothing is fetched before a pod reads it, and no pod waits.
_COLD: Any = {"warm": {"policy": "Manual"}, "scheduling": {"mode": "None"}}


def measure(session: Session) -> list[Epoch]:
    """Run the three epochs. Return their figures."""
    say("1/7 Cold: nothing is cached and nothing waits, as with a bucket mount. Reads wait for the store.")
    _cold_dataset(session, "cold")
    epochs = [_train(session, "cold", "cold", {})]
    say("2/7 Known order: the same on a fresh cold cache, with one line more. The node fetches what comes next.")
    show(f"stoker.dev/sampling: '{_LINE['stoker.dev/sampling']}'")
    _cold_dataset(session, "known")
    epochs.append(_train(session, 'one line "sampling"', "known", _LINE))
    say("3/7 Warm: Stoker's default. The pod is held until a node has all data, and starts there.")
    session.dataset("photos")
    epochs.append(_train(session, "warm", "photos", {}))
    show("\n".join(figures.table(epochs)))
    show(
        f"From the last line of each: kubectl -n {NAMESPACE} logs job/cold (known, photos). Held: stoker why job/photos"
    )
    return epochs


def _cold_dataset(session: Session, name: str) -> None:
    """Apply a Dataset, and wait until its files are listed."""
    session.dataset(name, **_COLD)
    session.until(f"Dataset {name} to be listed", lambda: session.get("dataset", name).get("status", {}).get("files"))


def _train(session: Session, name: str, dataset: str, annotations: dict[str, str]) -> Epoch:
    """Train an epoch in a Job with the name of its Dataset."""
    session.job(dataset, dataset, "train.py", annotations)
    report = session.follow(dataset)
    why = json.loads(session.place.run("stoker", "-n", NAMESPACE, "why", f"job/{dataset}", "-o", "json"))
    return Epoch.of(name, dataset, report, why[0]["heldSeconds"] or 0)

"""Step 7: the page of `stoker dashboard`, which stays up with the demo's own cluster."""

import re
from pathlib import Path

from e2e.cluster.processes import kill, owned_by, start_daemon, wait_for
from examples.demo.place import folder_of_programs
from examples.demo.session import Session, say, show

_COMPONENT = "dashboard"


def serve(session: Session) -> str:
    """Start the page and return a sentence with its address."""
    say("7/7 The page: every Dataset, node, job and held pod, live.")
    cluster = session.place.cluster
    if cluster is None:
        sentence = f"Run: {folder_of_programs()}/stoker dashboard"
        show(f"{sentence} (on a cluster that stays, the demo leaves no process behind)")
        return sentence
    kill([owned.pid for owned in owned_by(cluster.name) if owned.component == _COMPONENT])
    log = cluster.paths.logs / "dashboard.log"
    log.unlink(missing_ok=True)
    words = [str(Path(folder_of_programs()) / "stoker"), "dashboard", "--no-browser"]
    environment = {**session.place.environment, "PYTHONUNBUFFERED": "1"}
    process = start_daemon(cluster.name, _COMPONENT, words, log, environment)
    wait_for("the page", lambda: "Open " in log.read_text(), 60, log, lambda: process.poll() is None)
    found = re.search(r"Open (\S+)", log.read_text())
    sentence = f"Open {found[1] if found else ''} in a browser on this machine. The address works once."
    show(f"{sentence} Again: `make demo-shell`, `stoker dashboard`.")
    return sentence

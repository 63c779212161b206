"""The command line of the demo: up, shell, down."""

import argparse
import asyncio
import os
import subprocess
import sys
import time

from e2e.cluster import Cluster, HarnessError
from e2e.cluster.paths import cache_folder
from examples.demo import answers, epochs, faults, figures, installation, page, photos
from examples.demo import place as places
from examples.demo.place import EXISTING, DemoError
from examples.demo.session import BUCKET, NAMESPACE, Session, say, show
from examples.demo.upload import upload

_TRY_NEXT = (
    f"stoker -n {NAMESPACE} status -o wide      # what is warm, and what is wrong",
    f"stoker -n {NAMESPACE} report job/known    # how the epoch used its time",
    f"stoker -n {NAMESPACE} resume paused       # let the pod of the paused Dataset start",
    "stoker nodes                             # what each node holds, and from where",
    "stoker doctor                            # what is wrong in the cluster",
)


def up(options: argparse.Namespace) -> None:
    """Start the cluster, and tell the story."""
    if options.cluster == EXISTING:
        say("the cluster of the current kubeconfig; its store has its own delay")
        place = places.existing()
    else:
        say(places.forecast())
        place = places.own(options.cluster, options.nodes, say)
    say(f"{photos.COUNT:,} JPEGs of about 100 KiB, made once")
    asyncio.run(upload(place.store, BUCKET, photos.kept(cache_folder()), say))
    session = installation.prepare(place)
    if place.cluster is not None:
        say("pods read from a proxy that answers each request of the store 50 ms late, as from another region")
    try:
        tell(session)
    except KeyboardInterrupt:
        session.kubectl("delete", "jobs,trainingjobs", "--all", "--wait=false")
        raise


def tell(session: Session) -> None:
    """Run the steps. Print their figures together, and what to try next."""
    began = time.monotonic()
    measured = epochs.measure(session)
    seen = faults.break_it(session)
    moved = faults.drain(session)
    answers.ask(session)
    address = page.serve(session)
    say(f"Done, {(time.monotonic() - began) / 60:.1f} minutes after the cluster was ready:")
    verified = seen.sentence() if seen else "skipped."
    show("\n".join([*figures.table(measured), "", f"Restarts: {verified}", f"Drain: {moved}", f"Page: {address}"]))
    say("In `make demo-shell`, try these next. The cluster stays up; `make demo-down` removes every trace.")
    show("\n".join(_TRY_NEXT))


def shell(options: argparse.Namespace) -> None:
    """Open a shell in which kubectl, helm and stoker talk to the cluster."""
    path = f"{places.folder_of_programs()}:{os.environ['PATH']}"
    environment = {"PATH": path}
    if options.cluster != EXISTING:
        own = Cluster(options.cluster).environment()
        environment = {**own, "PATH": f"{places.folder_of_programs()}:{own['PATH']}"}
    say(f"kubectl, helm and stoker talk to {options.cluster}; try: kubectl -n {NAMESPACE} get datasets; exit leaves")
    sys.exit(
        subprocess.run(
            [os.environ.get("SHELL", "/bin/bash")], env={**os.environ, **environment}, check=False
        ).returncode
    )


def down(options: argparse.Namespace) -> None:
    """Remove every trace of the demo."""
    if options.cluster != EXISTING:
        Cluster(options.cluster, say).down()
    else:
        installation.remove(places.existing())
    say(f"{options.cluster}: no trace is left")


def parser() -> argparse.ArgumentParser:
    """Make the parser of the commands up, shell and down."""
    top = argparse.ArgumentParser(prog="python -m examples.demo", description=__doc__)
    commands = top.add_subparsers(required=True, metavar="CMD")
    for name, function in (("up", up), ("shell", shell), ("down", down)):
        command = commands.add_parser(name, help=function.__doc__)
        command.add_argument("--cluster", default="demo", help="a name, or `existing` for the current kubeconfig's")
        command.add_argument("--nodes", type=int, default=2)
        command.set_defaults(run=function)
    return top


def main() -> int:
    """Run one command. Errors are printed as a sentence."""
    options = parser().parse_args()
    try:
        options.run(options)
    except (DemoError, HarnessError) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ndemo: interrupted. `make demo` starts again, `make demo-down` removes every trace.", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())

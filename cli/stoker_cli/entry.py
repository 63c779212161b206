"""Where the programs `stoker` and `kubectl-stoker` begin: mounts wait for none of what asks a cluster."""

import sys

from stoker_cli import mount


def main() -> None:
    """Run the command line. Does not return."""
    command, *arguments = sys.argv[1:] or [""]
    if command in mount.COMMANDS:
        mount.become(command, arguments)
    # Late: click, the Kubernetes client and the API's models take half a second, which `stoker mount` has no use for.
    from stoker_cli.main import main as commands

    commands()

"""The command `stoker dashboard`."""

import asyncio
from pathlib import Path

import click

from stoker_cli.access.cluster import Target
from stoker_cli.errors import CliError
from stoker_cli.output import refusals

_FOLDER = click.Path(file_okay=False, path_type=Path)
_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"


@click.command()
@click.option("--port", type=click.IntRange(0, 65535), default=0, show_default=True, help="Port; 0: a free one.")
@click.option("--no-browser", is_flag=True, help="Print the address only.")
@click.pass_obj
def dashboard(target: Target, port: int, no_browser: bool) -> None:
    """Show the cluster on a local web page: warm map, Datasets, nodes, jobs and pods.

    The page reads and changes the cluster with your kubeconfig and your rights. Only this machine can reach it. The
    printed address works once, for one browser. Ctrl-C ends the server. Needs `pip install 'stoker[dashboard]'`.
    """
    with refusals():
        _require_server()
        from stoker_cli.dashboard.server.run import serve  # late: few commands need the web server

        asyncio.run(serve(target, port, browser=not no_browser))


@click.command("dashboard-server")
@click.option("--port", type=click.IntRange(1, 65535), default=8443, show_default=True, help="Port of all addresses.")
@click.option("--authority", type=_FOLDER, default=_ACCOUNT, help="Folder with the API server's ca.crt.")
@click.option("--certificates", type=_FOLDER, help="Folder with tls.crt and tls.key. Default: no TLS.")
def dashboard_server(port: int, authority: Path, certificates: Path | None) -> None:
    """Serve the page in a pod for users who sign in with their tokens (chart value dashboard.enabled).

    It uses no credentials of the pod. Every request to the API server has the token of the signed-in user.
    """
    with refusals():
        _require_server()
        from stoker_cli.dashboard.cluster.serve import ServerOptions, serve  # late: few commands need the web server

        asyncio.run(serve(ServerOptions(port, authority, certificates)))


def _require_server() -> None:
    """Import the packages of the extra. Raises CliError."""
    try:
        import jinja2  # noqa: F401 - late: few commands need them
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ModuleNotFoundError as error:
        raise CliError(
            "stoker dashboard needs a web server. Run: pip install 'stoker[dashboard]' (in a checkout: '.[dashboard]')"
        ) from error

"""The command line of the harness: python -m e2e.cluster CMD."""

import argparse
import shlex
import subprocess
import sys
from pathlib import Path

from e2e.cluster import leftovers, machine
from e2e.cluster.build import CLUSTER_PROGRAMS, RECIPES, Programs
from e2e.cluster.cluster import Cluster
from e2e.cluster.errors import HarnessError
from e2e.cluster.imagebuild import ImageBuilder, Request
from e2e.cluster.paths import ClusterPaths


def say(line: str) -> None:
    print(line, flush=True)


def build(options: argparse.Namespace) -> None:
    packages = machine.PACKAGES | machine.IMAGE_PACKAGES
    if installed := machine.install(packages):
        say(f"installed {', '.join(installed)}")
    programs = Programs()
    programs.build(RECIPES if options.all else options.programs or CLUSTER_PROGRAMS)
    say(f"the cluster's programs are in {' and '.join(map(str, programs.folders.values()))}")


def up(options: argparse.Namespace) -> None:
    Cluster(options.name, say, ipv6=options.ipv6).up(options.nodes)


def down(options: argparse.Namespace) -> None:
    names = leftovers.names_on_disk(ClusterPaths("all")) if options.all else [options.name]
    for name in names:
        Cluster(name).down()
        say(f"{name} is down")


def add_node(options: argparse.Namespace) -> None:
    say(f"{Cluster(options.name).add_node()} is Ready")


def remove_node(options: argparse.Namespace) -> None:
    Cluster(options.name).remove_node(options.node)


def status(options: argparse.Namespace) -> None:
    cluster = Cluster(options.name)
    healthy = cluster.is_healthy()
    say(
        f"{options.name}: {'healthy' if healthy else 'not up or not healthy'}; nodes: {', '.join(cluster.nodes) or '-'}"
    )
    if not healthy:
        sys.exit(1)
    say(f"logs: {cluster.paths.logs} and {cluster.paths.nodes}/NODE/var/log")
    say(cluster.kubectl("get", "nodes,pods", "-A", "-o", "wide"))


def env(options: argparse.Namespace) -> None:
    for name, value in Cluster(options.name).environment().items():
        say(f"export {name}={shlex.quote(value)}")


def enter(options: argparse.Namespace) -> None:
    words = [*Cluster(options.name).node(options.node).entry(), *(options.command or ["sh"])]
    sys.exit(subprocess.run(words, check=False).returncode)


def load_image(options: argparse.Namespace) -> None:
    Cluster(options.name).load_image(options.tar, [options.node] if options.node else None)


def build_image(options: argparse.Namespace) -> None:
    pairs = [argument.partition("=") for argument in options.build_arg]
    request = Request(
        dockerfile=options.file.resolve(),
        tag=options.tag,
        out=options.out.resolve(),
        context=options.context.resolve(),
        build_args={name: value for name, _, value in pairs},
    )
    ImageBuilder(say).build(request)


def s3(options: argparse.Namespace) -> None:
    server = Cluster(options.name).s3
    if options.action == "stop":
        server.stop()
        return
    server.start()
    say(f"export AWS_ENDPOINT_URL={server.endpoint} AWS_REGION={server.region}")
    say(f"export AWS_ACCESS_KEY_ID={server.access_key} AWS_SECRET_ACCESS_KEY={server.secret_key}")


def parser() -> argparse.ArgumentParser:
    """Return the parser. Each command stores its function in `run`."""
    top = argparse.ArgumentParser(prog="python -m e2e.cluster", description=__doc__)
    commands = top.add_subparsers(required=True, metavar="CMD")
    named = argparse.ArgumentParser(add_help=False)
    named.add_argument("--name", default="demo", help="the cluster's name (default: demo)")

    def command(function: object, name: str, text: str, *, of_cluster: bool = True) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=text, parents=[named] if of_cluster else [])
        made.set_defaults(run=function)
        return made

    option = command(build, "build", "install packages and build the programs", of_cluster=False)
    option.add_argument("--all", action="store_true", help="also what only tests need (csi-sanity)")
    option.add_argument("programs", nargs="*", metavar="PROGRAM", help="only these")
    option = command(up, "up", "start a cluster")
    option.add_argument("--nodes", type=int, default=2)
    option.add_argument("--ipv6", action="store_true", help="addresses are IPv6 only")
    command(down, "down", "remove every trace").add_argument("--all", action="store_true", help="of every cluster")
    command(add_node, "add-node", "let one more node join")
    command(remove_node, "remove-node", "take a node away").add_argument("node")
    command(status, "status", "what runs")
    command(env, "env", "export lines for a shell")
    option = command(enter, "enter", "run a command inside a node")
    option.add_argument("node")
    option.add_argument("command", nargs=argparse.REMAINDER)
    option = command(load_image, "load-image", "load a docker-archive into the nodes")
    option.add_argument("tar", type=Path)
    option.add_argument("--node", help="only into this one")
    image = commands.add_parser("image", help="images without a registry").add_subparsers(required=True, metavar="CMD")
    option = image.add_parser("build", help="build a Dockerfile into a docker-archive")
    option.set_defaults(run=build_image)
    option.add_argument("--file", type=Path, default=Path("Dockerfile"))
    option.add_argument("--tag", required=True)
    option.add_argument("--out", type=Path, required=True, help="the archive to write; kept when nothing changed")
    option.add_argument("--context", type=Path, default=Path())
    option.add_argument("--build-arg", action="append", default=[], metavar="NAME=VALUE")
    command(s3, "s3", "start or stop the S3 server").add_argument("action", choices=["start", "stop"])
    return top


def main() -> int:
    options = parser().parse_args()
    try:
        options.run(options)
    except HarnessError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # the reader of the pipe, such as `head`, has closed it
        sys.stdout = None
    return 0


if __name__ == "__main__":
    sys.exit(main())

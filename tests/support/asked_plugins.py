"""Plug-ins in a test's folder, laid out as installed packages, and the real plug-in process at a keeper's socket."""

import asyncio
import os
import shutil
import sys
import tomllib
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from stoker_orders.predictors.interface import OrderQuestion
from stoker_plugins.framework_question import FileHead, FrameworkQuestion
from stoker_plugins.order_questions import LoadQuestion
from stoker_plugins.questions import PluginQuestion
from stoker_sidecar.agent.questions.plugins.node_plugins import AskedPlugins, NodePlugins, PluginLink
from stoker_sidecar.wire.plugins_protocol import SOCKET, ToldAnswer
from tests.support.csi_driver import node_folder
from tests.support.keeper import Keeper

_GOOD = """
class Plugin:
    name = "{name}"
    def detect(self, path, head): return 0.5
    def hints(self, context): return {{}}
    def default_rules(self): return []
    def default_templates(self): return []
"""
_GOOD_ORDER = """
class Plugin:
    name = "{name}"
    def order(self, asked): return range(asked["samples"])
"""


def write_plugin(
    site: Path, name: str, body: str = "", module: str = "", group: str = "stoker.frameworks", good: str = _GOOD
) -> None:
    """Write a framework plug-in that is ``good`` except for this class body. ``module`` replaces the whole source."""
    text = module or good.format(name=name) + "".join(f"    {line}\n" for line in body.splitlines())
    (site / f"plugin_{name}.py").write_text(text)
    folder = site / f"stoker_{name}-1.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: stoker-{name}\nVersion: 1\n")
    (folder / "entry_points.txt").write_text(f"[{group}]\n{name} = plugin_{name}:Plugin\n")


def write_order_plugin(site: Path, name: str, body: str = "") -> None:
    """Write an order plug-in that returns the samples unchanged, except for this body."""
    write_plugin(site, name, body, group="stoker.orders", good=_GOOD_ORDER)


def install_example(site: Path, kind: str = "framework_plugin") -> None:
    """Copy the example of a plug-in into a folder, laid out as its wheel would be."""
    example = Path(__file__).resolve().parents[2] / "examples" / kind
    document = tomllib.loads((example / "pyproject.toml").read_text())
    project = document["project"]
    (package,) = document["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    shutil.copytree(example / package, site / package)
    folder = site / f"{package}-0.dist-info"
    folder.mkdir()
    head = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    (folder / "METADATA").write_text(head)
    ((group, entries),) = project["entry-points"].items()
    lines = [f"[{group}]", *(f"{name} = {value}" for name, value in entries.items())]
    (folder / "entry_points.txt").write_text("\n".join(lines))


def with_open_python(kept: Path) -> list[str]:
    """Return a command prefix under which any user may read this interpreter, even if it is root's.

    In a separate mount namespace, an empty folder that all users may enter covers the closed one. The interpreter's
    part of it is mounted there again. ``kept`` is an empty folder for a mount.
    """
    interpreter = Path(sys.executable).resolve()
    closed = next((path for path in reversed(interpreter.parents) if path.stat().st_mode & 0o005 != 0o005), None)
    if closed is None:
        return []
    inner = interpreter.relative_to(closed).parts[0]
    steps = (
        'mount --bind "$1/$2" "$0"',
        'mount -t tmpfs -o mode=0755 tmpfs "$1"',
        'mkdir "$1/$2"',
        'mount --bind "$0" "$1/$2"',
        "shift 2",
        'exec "$@"',
    )
    return ["unshare", "--mount", "sh", "-ec", "\n".join(steps), str(kept), str(closed), inner]


@dataclass
class AskingNode:
    """A keeper whose plug-in process finds the plug-ins of ``site``."""

    site: Path
    keeper: Keeper

    def ask(self, names: Sequence[str], files: Sequence[FileHead] = (FileHead("a.bin", b"x"),)) -> AskedPlugins:
        """Ask framework plug-ins as the agent does."""
        return self._ask(names, FrameworkQuestion(tuple(files)))

    def order(self, name: str, question: OrderQuestion) -> "array[int]":
        """Ask for an order as the agent does. Raises PluginRefusedError."""

        async def ask() -> "array[int]":
            return await NodePlugins(self._link, orders=[name]).order(name, question)

        return asyncio.run(ask())

    def look(self, name: str) -> ToldAnswer:
        """Load an order plug-in, as the agent does."""
        (told,) = self._ask([name], LoadQuestion()).told
        return told

    def _ask(self, names: Sequence[str], question: PluginQuestion[object]) -> AskedPlugins:
        return asyncio.run(self._link.ask(names, question))

    @property
    def _link(self) -> PluginLink:
        return PluginLink(self.keeper.run_dir / SOCKET)

    @property
    def asker(self) -> int | None:
        """The PID of the current plug-in process."""
        rows = self.keeper.call(op="list")["children"]
        pid: int | None = next(row["pid"] for row in rows if row["name"] == "asker")
        return pid


@contextmanager
def asking_node(
    names: Sequence[str], user: str = "", within: Sequence[str] = (), orders: Sequence[str] = ()
) -> Iterator[AskingNode]:
    """Run a keeper with these plug-ins. Write them into its site before the first request.

    ``orders`` are order plug-ins. ``user`` is the user of plug-in processes. Empty is the tests' own. ``Keeper``
    explains ``within``.
    """
    with node_folder() as folder, pytest.MonkeyPatch.context() as patch:
        folder.chmod(0o711)  # as for installed packages: any user may read them
        site = folder / "site"
        site.mkdir(mode=0o755)
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH")])))
        options = ["--plugins", ",".join(names), "--order-plugins", ",".join(orders)]
        options += ["--plugins-run-as", user, "--observe", "Off"]
        with Keeper(folder / "keeper", agent="tail -f /dev/null --", options=options, within=within) as keeper:
            yield AskingNode(site, keeper)

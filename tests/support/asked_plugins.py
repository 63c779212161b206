"""Plug-ins as packages that are installed have them, in a folder of a test, and the real asker at a keeper's socket."""

import asyncio
import os
import shutil
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from stoker_plugins.asking import FileHead
from stoker_sidecar.agent.plugin_link import AskedPlugins, PluginLink
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


def write_plugin(site: Path, name: str, body: str = "", module: str = "") -> None:
    """Write a plug-in that is good but for what the body of its class says; ``module``: in place of all that."""
    text = module or _GOOD.format(name=name) + "".join(f"    {line}\n" for line in body.splitlines())
    (site / f"plugin_{name}.py").write_text(text)
    folder = site / f"stoker_{name}-1.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: stoker-{name}\nVersion: 1\n")
    (folder / "entry_points.txt").write_text(f"[stoker.frameworks]\n{name} = plugin_{name}:Plugin\n")


def install_example(site: Path) -> None:
    """Lay the example of a plug-in in a folder as its wheel would be."""
    example = Path(__file__).resolve().parents[2] / "examples" / "framework_plugin"
    shutil.copytree(example / "stoker_paddle", site / "stoker_paddle")
    project = tomllib.loads((example / "pyproject.toml").read_text())["project"]
    folder = site / "stoker_paddle-0.dist-info"
    folder.mkdir()
    head = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    (folder / "METADATA").write_text(head)
    ((group, entries),) = project["entry-points"].items()
    lines = [f"[{group}]", *(f"{name} = {value}" for name, value in entries.items())]
    (folder / "entry_points.txt").write_text("\n".join(lines))


@dataclass
class AskingNode:
    """A keeper whose asker finds the plug-ins of ``site``."""

    site: Path
    keeper: Keeper

    def ask(self, names: Sequence[str], files: Sequence[FileHead] = (FileHead("a.bin", b"x"),)) -> AskedPlugins:
        """Ask as the agent does."""
        return asyncio.run(PluginLink(self.keeper.run_dir / "asker.sock").ask(names, files))

    @property
    def asker(self) -> int | None:
        """The pid of the asker that runs now."""
        rows = self.keeper.call(op="list")["children"]
        pid: int | None = next(row["pid"] for row in rows if row["name"] == "asker")
        return pid


@contextmanager
def asking_node(names: Sequence[str], user: str = "") -> Iterator[AskingNode]:
    """Run a keeper whose asker may ask these plug-ins; write them into its site before they are asked."""
    with node_folder() as folder, pytest.MonkeyPatch.context() as patch:
        site = folder / "site"
        site.mkdir(mode=0o755)
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH")])))
        options = ["--plugins", ",".join(names), "--plugins-run-as", user, "--observe", "Off"]
        with Keeper(folder / "keeper", agent="tail -f /dev/null --", options=options) as keeper:
            yield AskingNode(site, keeper)

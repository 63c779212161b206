"""Entry point of the asker: ``python -m stoker_sidecar.helpers.asker.main``. The keeper starts it for each question."""

import argparse
import logging
import os
import resource
import signal
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from stoker_plugins import child
from stoker_plugins.asking import answer_of
from stoker_plugins.discovery import InstalledPlugin, PluginKind, installed_plugins
from stoker_plugins.questions import PluginQuestion, parse_question
from stoker_sidecar.linux import libc
from stoker_sidecar.linux.sandbox import one_question
from stoker_sidecar.linux.sandbox.one_question import confine
from stoker_sidecar.wire.plugins_protocol import MOST_QUESTION, ToldAnswer, decode_question, encode_parts
from stoker_tuning.frameworks.answers import PluginRefusedError, parse_names

_log = logging.getLogger("stoker.asker")

_ROUNDS = 100  # of killing children; a process that forks faster reaches its CPU limit
_MOST_LEFT = 256  # children per round; the last number read may be cut


class Forks:
    """Forks the asker for each plug-in. ``keep_from``: descriptors that the forks close."""

    def __init__(self, keep_from: Collection[int]) -> None:
        self._keep_from = tuple(keep_from)

    def start(self, plugin: InstalledPlugin, question: PluginQuestion[object], answer: int) -> int:
        """Start the process of a plug-in: a StartPlugin. Raises OSError."""
        pid = os.fork()
        if pid:
            return pid
        try:
            os.setsid()
            for descriptor in self._keep_from:
                os.close(descriptor)
            _look_nowhere()
            # A second ruleset: the plug-in reaches neither the asker nor processes of other plug-ins.
            confine()
            child.tell(plugin.name, plugin.value, question, answer)
        finally:
            os._exit(1)


class LeftProcesses:
    """The children of this process, a subreaper: includes processes that plug-ins started in other sessions.

    Opens the kernel's list before the process is confined. The list is empty without CONFIG_PROC_CHILDREN. Raises
    OSError.
    """

    def __init__(self) -> None:
        path = f"/proc/self/task/{os.getpid()}/children"
        self.descriptor = os.open(path if Path(path).exists() else os.devnull, os.O_RDONLY)

    def end(self) -> None:
        """Kill them all."""
        for _ in range(_ROUNDS):
            os.lseek(self.descriptor, 0, os.SEEK_SET)
            pids = [int(word) for word in os.read(self.descriptor, 4096).split()[:_MOST_LEFT]]
            if not pids:
                return
            for pid in pids:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
                with suppress(ChildProcessError):
                    os.waitpid(pid, 0)


def _look_nowhere() -> None:
    """Discard standard input, output and error: a plug-in's output is neither an answer nor a log."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(nowhere, descriptor)
    os.close(nowhere)


_MOST_PROCESSES = 64  # of the asker's own user, threads of plug-ins included
_NOT_INSTALLED = "it is not installed in this image: see docs/guides/plugins.md"


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = one_question.parser("Asks plug-ins one question")
    for kind in PluginKind:
        parser.add_argument(f"--{kind}", type=parse_names, default=(), help=f"allowed {kind} plug-ins, by commas")
    parser.add_argument("--own-user", action="store_true", help="no other process is of this user")
    return parser.parse_args(argv)


def chosen(names: Sequence[str], installed: Sequence[InstalledPlugin]) -> Iterator[InstalledPlugin]:
    """Yield the plug-ins of these names, including those that are not installed."""
    found = {one.name: one for one in reversed(installed) if one.name in names}
    for name in names:
        yield found.get(name) or InstalledPlugin(name, "", "", _NOT_INSTALLED)


def answers(allowed: Mapping[str, Sequence[str]], line: bytes, forks: Forks, left: LeftProcesses) -> Iterator[bytes]:
    """Ask plug-ins in sequence, and yield their answers as lines. Raises ValueError.

    ``allowed``: the names of plug-ins by kind.
    """
    names, mapping = decode_question(line)
    question = parse_question(mapping)
    for plugin in chosen([name for name in allowed[question.kind] if name in names], installed_plugins(question.kind)):
        yield from encode_parts(_told(plugin, question, forks, left))


def _told(plugin: InstalledPlugin, question: PluginQuestion[object], forks: Forks, left: LeftProcesses) -> ToldAnswer:
    try:
        return ToldAnswer(plugin.name, plugin.origin, answer_of(plugin, question, forks.start))
    except PluginRefusedError as error:
        return ToldAnswer(plugin.name, plugin.origin, refused=str(error))
    except OSError as error:
        return ToldAnswer(plugin.name, plugin.origin, refused=f"its process cannot be started: {error.strerror}")
    finally:
        left.end()


def main(argv: Sequence[str] | None = None) -> int:
    """Answer one question; return the exit code."""
    options = _parse(sys.argv[1:] if argv is None else argv)
    connection = one_question.begin("stoker asker", options)
    libc.adopt_orphans()
    if options.own_user:
        resource.setrlimit(resource.RLIMIT_NPROC, (_MOST_PROCESSES, _MOST_PROCESSES))
    left = LeftProcesses()
    one_question.confine()
    try:
        line = one_question.read_line(connection, MOST_QUESTION)
        forks = Forks([options.connection_fd, left.descriptor])
        for said in answers(vars(options), line, forks, left):
            connection.sendall(said)
    except (OSError, ValueError) as error:  # the agent is gone, or is of another version
        _log.warning("a question about plug-ins is not answered: %s", error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

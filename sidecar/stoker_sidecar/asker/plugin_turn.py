"""One plug-in after the other is asked, each in a fork of its own, and what it leaves behind is ended."""

from dataclasses import dataclass

from stoker_plugins.asking import Question, answer_of
from stoker_plugins.discovery import InstalledPlugin
from stoker_sidecar.asker.forked import Forks, LeftProcesses
from stoker_sidecar.wire.plugins_protocol import ToldAnswer
from stoker_tuning.frameworks.answers import MOST_ANSWER, PluginRefusedError


@dataclass(frozen=True)
class PluginTurn:
    """What is needed to ask one."""

    forks: Forks
    left: LeftProcesses

    def told(self, plugin: InstalledPlugin, question: Question, seconds: float, most: int = MOST_ANSWER) -> ToldAnswer:
        """Ask a plug-in, and return what it says, ``most`` bytes at most, or why it says nothing in these seconds."""
        try:
            said = answer_of(plugin, question, seconds, self.forks.start, most)
            return ToldAnswer(plugin.name, plugin.origin, said)
        except PluginRefusedError as error:
            return ToldAnswer(plugin.name, plugin.origin, refused=str(error))
        except OSError as error:
            return ToldAnswer(plugin.name, plugin.origin, refused=f"its process cannot be started: {error.strerror}")
        finally:
            self.left.end()

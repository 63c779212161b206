"""The question for a framework plug-in: its opinion of files and a container, with its rules and templates."""

import json
import resource
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, ClassVar, NamedTuple

from stoker_plugins.discovery import PluginKind
from stoker_tuning.frameworks.answers import MOST_ANSWER, MOST_RULES, MOST_TEMPLATES, PluginAnswer, parse_answer
from stoker_tuning.frameworks.container_context import container_context
from stoker_tuning.frameworks.interface import MOST_HEAD, FrameworkPlugin

MOST_FILES = 16  # of a question
_CPU_SECONDS = 10


class FileHead(NamedTuple):
    """A file in a question: its path, and its first bytes."""

    path: str
    head: bytes


@dataclass(frozen=True)
class FrameworkQuestion:
    """Files and a container (see ``container_context``)."""

    kind: ClassVar = PluginKind.FRAMEWORK
    seconds: ClassVar = 5.0
    most_bytes: ClassVar = MOST_ANSWER
    limits: ClassVar = ((resource.RLIMIT_CPU, _CPU_SECONDS),)
    files: tuple[FileHead, ...] = ()
    context: Mapping[str, Any] = field(default_factory=lambda: container_context({}))

    @classmethod
    def of(cls, mapping: Mapping[str, Any]) -> "FrameworkQuestion":
        """Return the question in ``mapping``. Raises ValueError."""
        files, context = mapping.get("files"), mapping.get("context")
        if not isinstance(files, list) or len(files) > MOST_FILES or not isinstance(context, dict):
            raise ValueError(f"a question has a context and at most {MOST_FILES} files")
        return cls(tuple(FileHead(path, b64decode(head)) for path, head in files), context)

    def mapping(self) -> dict[str, Any]:
        """Return the question as a JSON object."""
        files = [(path, b64encode(head[:MOST_HEAD]).decode()) for path, head in self.files]
        return {"kind": self.kind, "files": files, "context": self.context}

    def answer(self, plugin: FrameworkPlugin) -> bytes:
        """Call every method of the plug-in. Raises any exception of the plug-in."""
        kind: Callable[[str, bytes], Any] = getattr(plugin, "model_kind", _no_kind)
        answer = {
            "name": plugin.name,
            "confidences": [plugin.detect(path, head) for path, head in self.files],
            "kinds": [kind(path, head) for path, head in self.files],
            "hints": plugin.hints(self.context),
            "rules": list(islice(plugin.default_rules(), MOST_RULES + 1)),
            "templates": list(islice(plugin.default_templates(), MOST_TEMPLATES + 1)),
        }
        return json.dumps(answer).encode()

    def read(self, name: str, said: bytes) -> PluginAnswer:
        """Check the answer of plug-in ``name``. Raises PluginRefusedError."""
        return parse_answer(name, said, len(self.files))


def _no_kind(path: str, head: bytes) -> str:
    return ""

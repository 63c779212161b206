"""The namespace that the user's kubeconfig context names, as kubectl would use it."""

import os
from pathlib import Path

import yaml

DEFAULT = "default"


def default_namespace(kubeconfig: Path | None = None, context: str | None = None) -> str:
    """Find the namespace of ``context`` (else the current one); ``default`` when nothing says otherwise."""
    first = os.environ.get("KUBECONFIG", "").split(os.pathsep)[0]
    path = kubeconfig or Path(first or Path.home() / ".kube" / "config")
    try:
        loaded = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except (OSError, yaml.YAMLError):
        return DEFAULT  # the client will say in a sentence what is wrong with the file
    wanted = context or loaded.get("current-context")
    for entry in loaded.get("contexts") or []:
        if entry.get("name") == wanted:
            return str((entry.get("context") or {}).get("namespace") or DEFAULT)
    return DEFAULT

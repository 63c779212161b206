"""Debian's promtool, and a Prometheus that scrapes targets with the Prometheus operator's configuration."""

import json
import re
import subprocess
import sys
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.support.ports import free_ports

_BIN = Path(sys.prefix) / "prometheus" / "usr" / "bin"
# The target labels that the Prometheus operator sets from a ServiceMonitor, by the discovered label.
_TARGET_LABELS = {
    "__meta_kubernetes_namespace": "namespace",
    "__meta_kubernetes_service_name": "service",
    "__meta_kubernetes_pod_name": "pod",
}


@dataclass(frozen=True)
class Target:
    """An address to scrape by a ServiceMonitor of the chart, and the Kubernetes metadata of its pod."""

    monitor: Mapping[str, Any]
    port: int
    pod: str
    node: str

    def scrape_config(self) -> dict[str, Any]:
        """Return the scrape configuration that the Prometheus operator would generate."""
        endpoint = self.monitor["spec"]["endpoints"][0]
        meta = self.monitor["metadata"]
        discovered = {
            "__meta_kubernetes_namespace": meta["namespace"],
            "__meta_kubernetes_service_name": f"{meta['name']}-metrics",
            "__meta_kubernetes_pod_name": self.pod,
            "__meta_kubernetes_pod_node_name": self.node,
        }
        relabelings = [{"source_labels": [known], "target_label": to} for known, to in _TARGET_LABELS.items()]
        return {
            "job_name": meta["name"],
            "honor_labels": endpoint.get("honorLabels", False),
            "metrics_path": endpoint["path"],
            "scrape_interval": "1s",
            "scrape_timeout": "1s",
            "static_configs": [{"targets": [f"127.0.0.1:{self.port}"], "labels": discovered}],
            "relabel_configs": [*relabelings, *map(_snake_case, endpoint.get("relabelings", []))],
        }


class Prometheus:
    """A running Prometheus on loopback."""

    def __init__(self, port: int) -> None:
        self._port = port

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Return the result of an instant query. Raises OSError if it does not serve, or for an invalid query."""
        words = urllib.parse.urlencode({"query": expression})
        with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/api/v1/query?{words}", timeout=30) as answer:
            body = json.loads(answer.read())
        result: list[dict[str, Any]] = body["data"]["result"]
        return result


@contextmanager
def prometheus(folder: Path, targets: Sequence[Target]) -> Iterator[Prometheus]:
    """Run Prometheus with these targets. Its files are in ``folder``."""
    (port,) = free_ports(1)
    config = folder / "prometheus.yaml"
    config.write_text(yaml.safe_dump({"scrape_configs": [target.scrape_config() for target in targets]}))
    argv = [str(_BIN / "prometheus"), f"--config.file={config}", f"--storage.tsdb.path={folder / 'data'}"]
    argv += [f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(argv, stdout=log, stderr=log)
    try:
        yield Prometheus(port)
    finally:
        process.terminate()
        process.wait()


def lint(exposition: str) -> str:
    """Return the findings of `promtool check metrics`, or empty."""
    done = _promtool("check", "metrics", stdin=exposition)
    return done.stdout + done.stderr if done.returncode else done.stderr


def failed_rule_tests(tests: Mapping[str, Any], file: Path) -> str:
    """Run `promtool test rules` with these tests, written to ``file``; return its output, empty if all pass."""
    file.write_text(yaml.safe_dump(dict(tests)))
    done = _promtool("test", "rules", str(file))
    return done.stdout + done.stderr if done.returncode else ""


def _promtool(*words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    argv = [str(_BIN / "promtool"), *words]
    return subprocess.run(argv, input=stdin, capture_output=True, text=True, check=False)


def _snake_case(relabeling: Mapping[str, Any]) -> dict[str, Any]:
    return {re.sub("[A-Z]", lambda found: f"_{found[0].lower()}", key): value for key, value in relabeling.items()}

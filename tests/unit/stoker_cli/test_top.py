"""What `stoker top` and `stoker tuning history` show of workloads."""

import io
import json
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from rich.console import Console

from stoker_api.nodecache import NodeCache
from stoker_cli import top, tuning, tuning_history
from stoker_cli.cluster import Target
from stoker_cli.errors import CliError
from stoker_cli.main import main
from stoker_cli.output import console


def cache(node: str, *workloads: dict[str, Any]) -> NodeCache:
    return NodeCache.model_validate({"metadata": {"name": node}, "status": {"workloads": list(workloads)}})


RESNET = {
    "pod": "vision/resnet-0",
    "datasets": ["vision/imagenet"],
    "phase": "Training",
    "epoch": 3,
    "epochProgress": 0.63,
    "itemsPerSecond": 2700,
    "stallPercent": 12,
    "tuned": "prefetch_depth 64 to 512: helped (ahead)",
    "gainPercent": 25,
}
BERT = {"pod": "nlp/bert-0", "datasets": ["nlp/wiki"], "phase": "Inference", "itemsPerSecond": 3000}
IDLE = {"pod": "vision/new-0", "stallPercent": 80}
CACHES = [cache("node-1", RESNET, IDLE), cache("node-2", BERT)]
CHANGE = {"knob": "prefetch_depth", "old": 64, "new": 512, "origin": "ahead"}
HURT = {"change": CHANGE, "verdict": "hurt", "taken_back": True, "gain": -0.5, "low": -0.6, "high": -0.4}
ROWS = [
    {"at": 3.0, "kind": "change", "pod": "vision/resnet-0", "dataset": "vision/imagenet", **HURT},
    {"at": 2.0, "kind": "prediction", "pod": "a/b", "dataset": "", "phase": "Validation", "came": "Training"},
    {"at": 1.0, "kind": "phase", "pod": "a/b", "dataset": "", "old": "", "new": "Training"},
]


class KnownCluster:
    """A cluster that has these NodeCaches."""

    async def node_caches(self) -> list[NodeCache]:
        return CACHES


@pytest.fixture(autouse=True)
def cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    @asynccontextmanager
    async def connect(_: Target) -> AsyncIterator[KnownCluster]:
        yield KnownCluster()

    for module in (top, tuning_history, tuning):
        monkeypatch.setattr(module, "connect", connect)


def stoker(*words: str) -> Result:
    return CliRunner().invoke(main, list(words))


def pods(*words: str) -> list[str]:
    result = stoker("top", "-o", "json", *words)
    assert result.exit_code == 0, result.output
    return [row["pod"] for row in json.loads(result.stdout)]


def test_a_line_has_phase_epoch_speed_stall_and_what_was_changed() -> None:
    result = stoker("top", "-n", "vision")
    line = next(line for line in result.stdout.splitlines() if "resnet" in line)

    for word in ("vision/resnet-0", "node-1", "Training", "3, 63%", "2,700", "12%", "helped (ahead)", "+25%"):
        assert word in line


def test_it_shows_the_namespace_that_is_asked_for() -> None:
    assert pods("-n", "nlp") == ["nlp/bert-0"]
    assert set(pods("-A")) == {"vision/resnet-0", "vision/new-0", "nlp/bert-0"}


@pytest.mark.parametrize(
    ("by", "first"),
    [("items", "nlp/bert-0"), ("stall", "vision/new-0"), ("gain", "vision/resnet-0"), ("pod", "nlp/bert-0")],
)
def test_what_is_sorted_by_comes_first(by: str, first: str) -> None:
    assert pods("-A", "--sort", by)[0] == first


def test_without_workloads_it_says_so_and_how_to_see_others() -> None:
    result = stoker("top", "-n", "empty")

    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "No node knows of a workload in namespace empty (-A shows all namespaces).\n"


def test_others_text_moves_no_cursor_and_is_no_markup() -> None:
    words = top.TopRow("n", CACHES[0].status.workloads[0].model_copy(update={"tuned": "[red]\x1b[2J"})).words()

    assert words[7] == "[red]?[2J"
    out = console()
    with out.capture() as shown:
        out.print(
            top.top_table([top.TopRow("n", CACHES[0].status.workloads[0].model_copy(update={"tuned": "[/red]"}))])
        )
    assert "[/red]" in shown.get()


def test_without_a_cluster_there_is_a_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.undo()
    missing = tmp_path / "none"
    result = stoker("--kubeconfig", str(missing), "-n", "vision", "top", "--once")

    assert result.exit_code == 4
    assert result.stderr.startswith("stoker: ")


class MovingCluster(KnownCluster):
    """A cluster that is looked at twice, and gone then."""

    looks = 0

    async def node_caches(self) -> list[NodeCache]:
        self.looks += 1
        if self.looks > 2:
            raise CliError("The cluster is gone.", 4)
        return CACHES[: 3 - self.looks]


async def test_on_a_terminal_the_table_is_drawn_again_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(top, "console", lambda: Console(file=screen, force_terminal=True, width=200))
    with pytest.raises(CliError, match="gone"):
        await top.follow(MovingCluster(), "", "pod", interval=0.0)

    assert screen.getvalue().count("vision/resnet-0") >= 2
    assert screen.getvalue().count("nlp/bert-0") == 1
    assert "\x1b[" in screen.getvalue()


def test_help_has_examples() -> None:
    assert "stoker top -A --sort stall --once" in stoker("top", "--help").stdout
    assert "--from http://localhost:8083" in stoker("tuning", "history", "--help").stdout


def test_the_last_changes_are_those_of_the_pod_or_dataset() -> None:
    found = [
        json.loads(stoker("tuning", "history", *words, "-o", "json").stdout)
        for words in (["-n", "vision"], ["resnet-0", "-n", "vision"], ["vision/imagenet"], ["-A"], ["nlp/bert-0"])
    ]

    assert [[row["pod"] for row in rows] for rows in found] == [["vision/resnet-0"]] * 4 + [[]]


def test_where_nothing_was_changed_it_says_so() -> None:
    assert stoker("tuning", "history", "nlp/bert-0").stderr == "No change has come to anything yet for nlp/bert-0.\n"


def test_a_pod_is_explained_by_what_its_node_says_of_it() -> None:
    result = stoker("tuning", "explain", "resnet-0", "-n", "vision")

    assert result.exit_code == 0, result.output
    assert "vision/resnet-0 on node-1: phase Training, items a second 2700.0." in result.stdout
    assert "It reads vision/imagenet; by the built-in rules:" in result.stdout
    assert "The last change for it: prefetch_depth 64 to 512: helped (ahead), +25% items a second." in result.stdout
    assert ["should_cache", "true", "phase", "Training"] in [line.split() for line in result.stdout.splitlines()]


def test_a_document_goes_before_the_built_in_rules_for_a_pod(tmp_path: Path) -> None:
    document = tmp_path / "mine.yaml"
    condition = "{type: workload_context, property: phase, value: Training}"
    action = "{type: prefetch, target: dataset, parameters: {prefetch_depth: 77}}"
    rule = f"  rules: [{{id: deep, conditions: [{condition}], actions: [{action}]}}]\n"
    document.write_text(f"apiVersion: stoker.dev/v1alpha1\nkind: TuningProfile\nmetadata: {{name: m}}\nspec:\n{rule}")
    words = "tuning", "explain", "vision/resnet-0", "--profile", str(document), "-o", "json"
    found = json.loads(stoker(*words).stdout)

    assert (found["values"]["prefetch_depth"]["value"], found["values"]["prefetch_depth"]["rule"]) == (77, "deep")
    assert "deep" in found["rules"]


def test_a_pod_that_no_node_knows_is_refused_with_what_may_be_meant() -> None:
    result = stoker("tuning", "explain", "mine.yaml", "-n", "vision")

    assert result.exit_code == 3
    assert "No node tells of a workload vision/mine.yaml" in result.stderr
    assert "A document is explained with a file's PATH behind it." in result.stderr


@pytest.fixture
def sidecar() -> Iterator[tuple[str, list[str]]]:
    """Serve a node's history; gives its address, and what was asked."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(404 if "kind=phase" in self.path else 200)
            self.end_headers()
            self.wfile.write(b"no" if "kind=prediction" in self.path else json.dumps({"history": ROWS}).encode())

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", asked
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_nodes_whole_history_is_read_from_it(sidecar: tuple[str, list[str]]) -> None:
    url, asked = sidecar
    result = stoker("tuning", "history", "vision/imagenet", "--from", url, "--kind", "change", "--limit", "5")

    assert asked == ["/ml/history?limit=5&about=vision%2Fimagenet&kind=change"]
    assert "prefetch_depth 64 to 512 (ahead)" in result.stdout
    assert "hurt, taken back, -50% (-60 to -40)" in result.stdout
    assert "Training came: wrong" in result.stdout
    assert "nothing to Training" in result.stdout


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--from", "localhost:8083"], "'localhost:8083' is no address: name one such as http://localhost:8083."),
        (["--from", "file:///etc/passwd"], "'file:///etc/passwd' is no address"),
        (["--from", "{url}", "--kind", "prediction"], "answered what is no history: is it port 8083 of a sidecar?"),
        (["--from", "{url}", "--kind", "phase"], "answered 404: is it port 8083 of a sidecar?"),
        (["--from", "http://127.0.0.1:1"], "does `kubectl -n stoker port-forward pod/SIDECAR 8083` run?"),
    ],
)
def test_what_cannot_be_read_is_a_sentence(sidecar: tuple[str, list[str]], words: list[str], sentence: str) -> None:
    result = stoker("tuning", "history", *(word.format(url=sidecar[0]) for word in words))

    assert result.exit_code in (1, 4)
    assert sentence in result.stderr

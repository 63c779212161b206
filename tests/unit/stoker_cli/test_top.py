"""The commands `stoker top` and `stoker tuning history`."""

import io
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from rich.console import Console

from stoker_api.node_caches.node_workload import NodeWorkload
from stoker_api.node_caches.nodecache import NodeCache
from stoker_api.times import format_time
from stoker_cli.errors import CliError
from stoker_cli.main import main
from stoker_cli.output import console
from stoker_cli.pods import top
from stoker_cli.pods.top_row import TopRow
from stoker_cli.tuning import command, history
from tests.support.cases import cases
from tests.unit.stoker_cli.builders import connect_to, node_cache


def cache(node: str, *workloads: dict[str, Any]) -> NodeCache:
    return node_cache(node, workloads=list(workloads))


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
    """A cluster with these NodeCaches."""

    async def workload_caches(self, namespace: str) -> list[NodeCache]:
        return CACHES

    async def node_caches(self) -> list[NodeCache]:
        return CACHES


@pytest.fixture(autouse=True)
def cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    connect_to(monkeypatch, KnownCluster(), top, history, command)


def stoker(*words: str) -> Result:
    return CliRunner().invoke(main, list(words))


def pods(*words: str) -> list[str]:
    result = stoker("top", "-o", "json", *words)
    assert result.exit_code == 0, result.output
    return [row["pod"] for row in json.loads(result.stdout)]


def test_a_row_has_phase_epoch_speed_stall_and_the_last_change() -> None:
    result = stoker("top", "-n", "vision")
    line = next(line for line in result.stdout.splitlines() if "resnet" in line)

    for word in ("vision/resnet-0", "node-1", "Training", "4, ~63%", "2,700", "12%", "helped (ahead)", "+25%"):
        assert word in line


@cases("age, epoch, shown", (0.4, "4, 63±1%", "0s"), (41.0, "4, ~63%", "41s"), (None, "4, ~63%", "-"))
def test_a_row_has_the_age_of_its_figures(age: float | None, epoch: str, shown: str) -> None:
    taken = {} if age is None else {"figuresAt": format_time(1000.0 - age, "milliseconds")}
    row = NodeWorkload.model_validate(RESNET | {"epochError": 0.01} | taken)
    words = dict(zip(top.COLUMNS, TopRow("node-1", row).words(1000.0), strict=True))
    assert (words["EPOCH"], words["AGE"]) == (epoch, shown)


def test_only_the_selected_namespace_is_shown() -> None:
    assert pods("-n", "nlp") == ["nlp/bert-0"]
    assert set(pods("-A")) == {"vision/resnet-0", "vision/new-0", "nlp/bert-0"}


@cases(
    "by, first", ("items", "nlp/bert-0"), ("stall", "vision/new-0"), ("gain", "vision/resnet-0"), ("pod", "nlp/bert-0")
)
def test_rows_are_sorted_by_the_selected_column(by: str, first: str) -> None:
    assert pods("-A", "--sort", by)[0] == first


def test_without_workloads_the_message_suggests_all_namespaces() -> None:
    result = stoker("top", "-n", "empty")

    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "No workloads in namespace empty (-A shows all namespaces).\n"


def test_untrusted_text_is_neither_control_sequence_nor_markup() -> None:
    words = TopRow("n", CACHES[0].status.workloads[0].model_copy(update={"tuned": "[red]\x1b[2J"})).words(0.0)

    assert words[8] == "[red]?[2J"
    out = console()
    with out.capture() as shown:
        out.print(top.top_table([TopRow("n", CACHES[0].status.workloads[0].model_copy(update={"tuned": "[/red]"}))]))
    assert "[/red]" in shown.get()


def test_an_unreachable_cluster_is_a_one_line_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.undo()
    missing = tmp_path / "none"
    result = stoker("--kubeconfig", str(missing), "-n", "vision", "top", "--once")

    assert result.exit_code == 4
    assert result.stderr.startswith("stoker: ")


class MovingCluster(KnownCluster):
    """A cluster that fails after two reads."""

    looks = 0

    async def workload_caches(self, namespace: str) -> list[NodeCache]:
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


def test_without_changes_the_message_says_so() -> None:
    assert (
        stoker("tuning", "history", "nlp/bert-0").stderr
        == "No tuning change has had a measurable effect yet for nlp/bert-0.\n"
    )


def test_a_pod_is_explained_from_its_nodecache() -> None:
    result = stoker("tuning", "explain", "resnet-0", "-n", "vision", "--all")

    assert result.exit_code == 0, result.output
    assert "vision/resnet-0 on node-1: phase Training, items per second 2700.0." in result.stdout
    assert "Datasets: vision/imagenet. By the built-in rules:" in result.stdout
    assert "Last change: prefetch_depth 64 to 512: helped (ahead), +25% items per second." in result.stdout
    assert "should_cache true cache_policy TrainingAware, by level Balanced" in [
        " ".join(line.split()) for line in result.stdout.splitlines()
    ]


def test_a_document_takes_precedence_over_built_in_rules_for_a_pod(tmp_path: Path) -> None:
    document = tmp_path / "mine.yaml"
    condition = "{type: workload_context, property: phase, value: Training}"
    action = "{type: prefetch, target: dataset, parameters: {prefetch_depth: 77}}"
    rule = f"  rules: [{{id: deep, conditions: [{condition}], actions: [{action}]}}]\n"
    document.write_text(f"apiVersion: stoker.dev/v1alpha1\nkind: TuningProfile\nmetadata: {{name: m}}\nspec:\n{rule}")
    words = "tuning", "explain", "vision/resnet-0", "--profile", str(document), "-o", "json"
    found = json.loads(stoker(*words).stdout)

    assert (found["values"]["prefetch_depth"]["value"], found["values"]["prefetch_depth"]["rule"]) == (77, "deep")
    assert "deep" in found["rules"]


def test_an_unknown_pod_is_an_error_with_a_suggestion() -> None:
    result = stoker("tuning", "explain", "mine.yaml", "-n", "vision")

    assert result.exit_code == 3
    assert "No node reports the pod vision/mine.yaml" in result.stderr
    assert "For a document, add a PATH: stoker tuning explain FILE PATH" in result.stderr


@pytest.fixture
def sidecar() -> Iterator[tuple[str, list[str]]]:
    """Serve the history of a node. Yields its URL and the requested paths."""
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


def test_the_full_history_comes_from_the_sidecar(sidecar: tuple[str, list[str]]) -> None:
    url, asked = sidecar
    result = stoker("tuning", "history", "vision/imagenet", "--from", url, "--kind", "change", "--limit", "5")

    assert asked == ["/ml/history?limit=5&about=vision%2Fimagenet&kind=change"]
    assert "prefetch_depth 64 to 512 (ahead)" in result.stdout
    assert "hurt, reverted, -50% (-60 to -40)" in result.stdout
    assert "wrong: Training followed" in result.stdout
    assert "nothing to Training" in result.stdout


@cases(
    "words, sentence",
    (["--from", "localhost:8083"], "'localhost:8083' is not a URL. Use one such as http://localhost:8083."),
    (["--from", "file:///etc/passwd"], "'file:///etc/passwd' is not a URL"),
    (["--from", "{url}", "--kind", "prediction"], "did not answer with a history. Use port 8083"),
    (["--from", "{url}", "--kind", "phase"], "answered 404. Use port 8083 of a sidecar"),
    (["--from", "http://127.0.0.1:1"], "Run: kubectl -n stoker port-forward pod/SIDECAR 8083"),
)
def test_an_unreadable_history_is_a_one_line_error(
    sidecar: tuple[str, list[str]], words: list[str], sentence: str
) -> None:
    result = stoker("tuning", "history", *(word.format(url=sidecar[0]) for word in words))

    assert result.exit_code in (1, 4)
    assert sentence in result.stderr

"""The command `stoker warm`: paths, nodes, pages, and waiting."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from stoker_api.datasets.dataset import Dataset, Warm
from stoker_api.datasets.warm_paths import paths_digest, told_as_list
from stoker_cli import rows
from stoker_cli.access import cluster
from stoker_cli.datasets import waiting, warm_paths
from stoker_cli.datasets.warm_paths import WarmRequest, check_applied, check_nodes, read_nodes
from stoker_cli.errors import CliError
from stoker_cli.main import _follow, main
from tests.support.cases import cases

PATHS = ["train/", "val/*.tar"]


def _dataset(found: str = "True", warm: str = "True", generation: int = 2, **part: Any) -> Dataset:
    since = {"lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": generation}
    conditions = [
        {"type": "Warm", "status": warm, "reason": "Warm", "message": "w", **since},
        {"type": "PathsFound", "status": found, "reason": "R", "message": "'val/*.tar' name nothing", **since},
    ]
    figures = {"digest": paths_digest(tuple(PATHS)), "files": 12, "bytes": 1024, "warmFiles": 3, "warmBytes": 512}
    return Dataset.model_validate(
        {
            "metadata": {"name": "d", "namespace": "n", "generation": 2},
            "spec": {"source": {"uri": "s3://bucket/"}, "warm": {"paths": PATHS}},
            "status": {"observedGeneration": 2, "conditions": conditions, "warmPaths": figures | part},
        }
    )


def test_path_arguments_precede_the_paths_of_the_list() -> None:
    assert warm_paths.read(("b", "a"), [b"\xef\xbb\xbf# a list\n", b"\n", b"c\r\n", b"a\n"]) == ("b", "a", "c")


def test_without_paths_the_spec_stays_as_it_is() -> None:
    assert warm_paths.read((), None) is None


@cases(
    "paths, listed, sentence",
    (("/a",), None, "must be below"),
    ((), [], "no path"),
    (("a" * 1025,), None, "1025 characters"),
    (tuple(map(str, range(1001))), None, "More than 1000 paths"),
    ((), (b"%d\n" % n for n in range(10**6)), "More than 1000 paths"),
    ((), (b"%d\n" % n for n in range(1001)), "as lists/warm.txt below"),
    ((), [b"train/\n", b"\xff\n"], "line 2 of the list is not UTF-8: save it as UTF-8"),
    ((), [b"train/\n", b"/val\n"], "line 2 of the list: the path '/val' must be below"),
    (("val/\udcff",), None, "is not UTF-8: name its folder"),
    (tuple(f"*{n}" for n in range(101)), None, "101 of the paths have wildcards"),
)
def test_wrong_paths_are_refused_before_the_cluster_is_asked(paths: Any, listed: Any, sentence: str) -> None:
    with pytest.raises(CliError, match=sentence) as refused:
        warm_paths.read(paths, listed)
    assert refused.value.exit_code == 2


def test_waiting_ends_when_the_selected_files_are_warm() -> None:
    assert waiting.warm(_dataset())
    assert not waiting.warm(_dataset(warm="False"))


def test_a_status_of_other_paths_or_of_an_earlier_spec_is_ignored() -> None:
    assert not waiting.warm(_dataset(digest="other"))
    assert not waiting.warm(_dataset(generation=1))


def test_without_paths_the_condition_on_paths_is_ignored() -> None:
    earlier = _dataset(generation=1)
    asked = earlier.model_copy(update={"spec": earlier.spec.model_copy(update={"warm": Warm()})})
    assert not waiting.warm(asked)


@cases(
    "spec, status, sentence",
    ({"paused": True}, {}, "n/d is paused. Resume it with: stoker -n n resume d"),
    ({}, {"state": "Full"}, "The nodes of n/d are full: w"),
)
def test_waiting_ends_at_once_if_nothing_can_progress(
    spec: dict[str, Any], status: dict[str, Any], sentence: str
) -> None:
    wire: dict[str, Any] = _dataset(warm="False").wire()
    wire["spec"]["warm"] |= spec
    wire["status"] |= status
    with pytest.raises(CliError, match=sentence):
        waiting.warm(Dataset.model_validate(wire))


def test_an_unmatched_path_ends_the_wait_after_all_other_paths_are_warm() -> None:
    assert not waiting.warm(_dataset(found="False", warm="False"))
    with pytest.raises(CliError, match="name nothing; all other paths are warm"):
        waiting.warm(_dataset(found="False"))


def test_an_unmatched_list_ends_the_wait_at_once() -> None:
    with pytest.raises(CliError, match=r"name nothing$"):
        waiting.warm(_dataset(found="False", warm="False", files=0))


def test_the_status_has_the_progress_of_the_paths() -> None:
    (line,) = rows.path_lines(_dataset())
    assert line == "warm.paths: train/, val/*.tar: 3 of 12 files, 512 B of 1.0 KiB on the least warm node"


class _Client:
    """A cluster that records patches."""

    def __init__(self) -> None:
        self.bodies: list[Any] = []

    async def patch(self, _kind: object, _name: str, body: Any, _namespace: str) -> Any:
        self.bodies.append(body)
        return _dataset().wire()


@cases(
    "request_, written",
    (WarmRequest(paths=("b/", "a")), {"paths": ["b/", "a"], "list": None}),
    (WarmRequest(paths=()), {"paths": None, "list": None}),
    (WarmRequest(listed="lists/a.txt"), {"paths": None, "list": "lists/a.txt"}),
    (WarmRequest(nodes=("a",), pages=True), {"nodes": ["a"], "pages": True}),
    (WarmRequest(nodes=(), pages=False), {"nodes": None, "pages": None}),
)
async def test_the_request_is_written_to_the_spec(request_: WarmRequest, written: Any) -> None:
    client = _Client()
    await cluster.Cluster(client, "n").warm("d", request_.changes())  # type: ignore[arg-type]  # what it uses of it
    (body,) = client.bodies
    assert body["spec"] == {"warm": written}
    assert "stoker.dev/warm-requested" in body["metadata"]["annotations"]


async def test_after_ctrl_c_the_message_says_that_warming_continues(capsys: pytest.CaptureFixture[str]) -> None:
    waiter = asyncio.ensure_future(_follow(_Unreadable(), "d", waiting.warm, 60.0))  # type: ignore[arg-type]  # as above
    await asyncio.sleep(0)
    waiter.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiter
    assert "Follow it: stoker -n n status d. Pause it: stoker -n n pause d" in capsys.readouterr().err


class _Unreadable:
    """A cluster that does not answer."""

    namespace = "n"

    async def dataset(self, _name: str) -> Dataset:
        await asyncio.Event().wait()
        raise AssertionError("it never answers")


def test_all_takes_no_paths(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["warm", "d", "a", "--all"])
    assert (done.exit_code, "--all takes no paths" in done.output) == (2, True)


def test_too_many_paths_are_an_error_with_the_place_for_a_list(tmp_path: Path) -> None:
    file = tmp_path / "subset.txt"
    file.write_bytes(b"".join(b"%d\n" % n for n in range(1001)))
    done = CliRunner().invoke(main, ["warm", "d", "--list", str(file)])
    assert done.exit_code == 2
    assert "`stoker warm DATASET --list-in-dataset lists/subset.txt`" in done.output.replace("\n", " ")


@pytest.mark.parametrize("more", [["a"], ["--all"], ["--forecast"]])
def test_a_list_in_the_dataset_excludes_other_paths(more: list[str]) -> None:
    done = CliRunner().invoke(main, ["warm", "d", "--list-in-dataset", "lists/a.txt", *more])
    assert (done.exit_code, "--list-in-dataset selects" in done.output or "--forecast" in done.output) == (2, True)


def test_an_invalid_path_of_a_list_in_the_dataset_is_an_error() -> None:
    done = CliRunner().invoke(main, ["warm", "d", "--list-in-dataset", "/lists/a.txt"])
    assert (done.exit_code, "write lists/mine.txt" in done.output.replace("\n", " ")) == (2, True)


def test_crds_that_drop_the_list_are_an_error() -> None:
    with pytest.raises(CliError, match=r"have no spec\.warm\.list, so all files are fetched. Run `stoker pause d`"):
        check_applied(WarmRequest(listed="a"), _dataset())
    check_applied(WarmRequest(listed="a"), _listed())


def _listed(**part: Any) -> Dataset:
    wire: Any = _dataset(**part).wire()
    wire["spec"]["warm"] = {"list": "a"}
    wire["status"]["warmPaths"]["digest"] = paths_digest(told_as_list("a"))
    return Dataset.model_validate(wire)


def test_a_list_is_followed_and_shown_like_paths() -> None:
    assert waiting.warm(_listed())
    (line,) = rows.path_lines(_listed())
    assert line == "warm.list: a: 3 of 12 files, 512 B of 1.0 KiB on the least warm node"


def test_a_forecast_before_the_first_report_is_not_zero() -> None:
    dataset = _listed()
    unknown = dataset.status.model_copy(update={"warm_paths": None, "version": "1" * 64, "total": "1.2 TiB"})
    said = rows.forecast(dataset.model_copy(update={"status": unknown}))
    assert said == "n/d: no node has reported the files of warm.list yet; the whole Dataset has 1.2 TiB."


async def test_without_changes_only_the_request_is_written() -> None:
    client = _Client()
    await cluster.Cluster(client, "n").warm("d", WarmRequest().changes())  # type: ignore[arg-type]  # as above
    assert "spec" not in client.bodies[0]


def test_node_names_are_split_at_commas_without_duplicates() -> None:
    assert read_nodes("b, a,b", anywhere=False) == ("b", "a")
    assert (read_nodes(None, anywhere=False), read_nodes(None, anywhere=True)) == (None, ())


@cases(
    "given, anywhere, said",
    (",", False, "is empty"),
    ("a", True, "exclude each other"),
    (",".join(map(str, range(101))), False, "the limit is 100"),
)
def test_invalid_node_names_are_an_error(given: str, anywhere: bool, said: str) -> None:
    with pytest.raises(CliError, match=said):
        read_nodes(given, anywhere=anywhere)


def test_a_node_without_a_sidecar_is_an_error_with_the_choices() -> None:
    with pytest.raises(CliError, match=r"No sidecar runs on z\. Choose from a, b"):
        check_nodes(("a", "z"), ["b", "a"])


def test_node_names_are_not_checked_without_access_to_nodecaches() -> None:
    check_nodes(("a",), [])


def _with(spec: dict[str, Any], warm_nodes: str = "1/1", request_: str = "now", **conditions: str) -> Dataset:
    wire: Any = _dataset().wire()
    wire["spec"]["warm"] = spec
    wire["metadata"]["annotations"] = {"stoker.dev/warm-requested": "now"}
    wire["status"] |= {"warmNodes": warm_nodes, "pagesRequest": request_}
    since = {"reason": "R", "message": "m", "observedGeneration": 2, "lastTransitionTime": "2026-11-23T00:00:00Z"}
    wire["status"]["conditions"] += [{"type": kind, "status": status} | since for kind, status in conditions.items()]
    return Dataset.model_validate(wire)


@cases("request_, status, done", ("now", "True", True), ("now", "False", False), ("before", "True", False))
def test_with_pages_waiting_ends_after_the_nodes_read_them_for_this_request(
    request_: str, status: str, done: bool
) -> None:
    assert waiting.warm(_with({"pages": True}, request_=request_, PagesWarm=status)) is done


def test_an_unknown_node_ends_the_wait_after_all_other_nodes_are_warm() -> None:
    with pytest.raises(CliError, match="m"):
        waiting.warm(_with({"nodes": ["a", "z"]}, NodesFound="False"))


def test_only_unknown_nodes_end_the_wait_at_once() -> None:
    cold = _with({"nodes": ["z"], "paths": ["a"]}, warm_nodes="0/0", NodesFound="False")
    with pytest.raises(CliError, match="m"):
        waiting.warm(cold)


def test_a_class_without_pages_ends_the_wait_after_the_disks_are_warm() -> None:
    dataset = _with({"pages": True}, Limited="True")
    conditions = tuple(
        one.model_copy(update={"message": "warm.pages is ignored: ..."}) for one in dataset.status.conditions
    )
    status = dataset.status.model_copy(update={"conditions": conditions})
    with pytest.raises(CliError, match=r"warm\.pages is ignored"):
        waiting.warm(dataset.model_copy(update={"status": status}))


@pytest.mark.parametrize("more", [["a"], ["--all"], ["--pages"], ["--nodes", "n"], ["--wait"]])
def test_a_forecast_excludes_changes(more: list[str]) -> None:
    done = CliRunner().invoke(main, ["warm", "d", "--forecast", *more])

    assert done.exit_code == 2
    assert "--forecast" in done.output

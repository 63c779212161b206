"""The order of a mount from --sampling, and the suggestion if the environment has a seed."""

import json
from pathlib import Path

import pytest

from stoker_sidecar.local.mounts.mount_spec import MountSpec
from stoker_sidecar.local.options.mount_options import MountOptions, parse
from stoker_sidecar.local.options.said_sampling import read_sampling_option
from stoker_sidecar.local.reports.report import Report, order_line, progress_event
from stoker_sidecar.local.reports.report_parts import OrderReport
from stoker_sidecar.local.reports.terminal import seed_hint
from tests.support.asked_plugins import install_example
from tests.support.cases import cases

SAID = '{"sampler": "torch-distributed", "seed": 42, "files": {"path": "train"}}'


def mount(*words: str) -> MountOptions:
    options = parse(["mount", "s3://bucket", "/data", *words], {"HOME": "/home/me"}, 1000)
    assert isinstance(options, MountOptions)
    return options


def test_json_is_taken_as_it_is_and_reads_are_looked_at() -> None:
    options = mount("--sampling", SAID)
    assert json.loads(options.sampling)["seed"] == 42
    assert options.observe
    assert (mount().sampling, mount().observe) == ("", False)


@pytest.mark.parametrize("text", [SAID, "sampler: torch-distributed\nseed: 42\nfiles: {path: train}\n"])
def test_a_file_of_json_or_yaml_is_read(tmp_path: Path, text: str) -> None:
    file = tmp_path / "sampling"
    file.write_text(text)
    assert read_sampling_option(str(file)) == read_sampling_option(SAID)


@cases(
    "said, sentence",
    ('{"seed": "x"}', "--sampling is wrong at seed: "),
    ('{"sede": 1}', "--sampling is wrong at sede: "),
    ('{"sampler": "torch-distribued"}', "--sampling is wrong at sampler: "),
    ('{"sampler": "numpy-permutation", "seed": -1}', "takes no negative seed"),
    ('{"seed": 1', "--sampling, line 1: "),
    ("missing.yaml", "is neither a file nor JSON such as"),
    ("/dev/zero", "is neither a file nor JSON such as"),
    ('{"dataset": "other"}', "leave it out, since a mount has one source"),
    ('{"sampler": "plugin:absent"}', "asks the order plug-in absent, which is not installed"),
    ('{"files": {"path": "' + "x" * 70_000 + '"}}', "characters or more, and 65536 are allowed"),
)
def test_what_cannot_be_right_is_refused_with_a_sentence(said: str, sentence: str) -> None:
    with pytest.raises(ValueError, match="--sampling") as refused:
        read_sampling_option(said)
    assert sentence in str(refused.value)


def test_a_file_that_is_wrong_is_named_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("seed: 1\nfiles: {path: train\n")
    with pytest.raises(ValueError, match=f"--sampling {file}, line 3: "):
        read_sampling_option(str(file))
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match="is not text"):
        read_sampling_option(str(file))


def test_a_wrong_one_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        mount("--sampling", '{"seed": "x"}')
    assert ended.value.code == 2
    assert "write for example --sampling" in capsys.readouterr().err


def test_an_order_plug_in_that_is_installed_is_asked_by_the_mount(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_example(tmp_path, "order_plugin")
    monkeypatch.syspath_prepend(str(tmp_path))
    text = read_sampling_option('{"sampler": "plugin:numpy-legacy", "seed": 3}')
    spec = MountSpec(source=mount().source, folder=Path("/data"), home=tmp_path, sampling=text)
    assert spec.order_plugin == "numpy-legacy"
    assert spec.model_copy(update={"sampling": read_sampling_option(SAID)}).order_plugin == ""


def test_the_order_is_told_to_scripts_and_said_once_it_is_known() -> None:
    known = Report(order=OrderReport(state="Known", agreement=100, message="epoch 2", source="Spec"))
    assert progress_event(known)["order"] == {
        "state": "Known",
        "agreement": 100,
        "message": "epoch 2",
        "source": "Spec",
    }
    assert "order" not in progress_event(Report())
    assert order_line(known.order).startswith("order: Known")
    assert order_line(OrderReport(state="Wrong", message="read 33 was b")) == "order: Wrong: read 33 was b"
    assert order_line(OrderReport(state="Unknown", message="few")) == ""


def test_a_seed_of_the_environment_is_suggested_and_not_assumed() -> None:
    hint = seed_hint({"PL_GLOBAL_SEED": "7", "HOME": "/home/me"})
    assert hint.startswith("PL_GLOBAL_SEED is 7: if it seeds the sampler")
    assert read_sampling_option(hint.partition("--sampling '")[2].rstrip("'"))
    assert seed_hint({"PYTHONHASHSEED": "7", "SEED": "random"}) == ""

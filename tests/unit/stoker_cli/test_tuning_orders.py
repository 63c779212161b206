"""The command `stoker tuning orders`."""

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from stoker_cli.main import main
from stoker_orders.loader_schedule import Loading, rank_order
from stoker_orders.predictors.samplers import SAMPLERS, SamplerName
from tests.support.asked_plugins import install_example, write_order_plugin
from tests.support.cases import cases


def orders(*words: object) -> Result:
    return CliRunner().invoke(main, ["tuning", "orders", *map(str, words)])


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder that is searched like installed packages."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")])))
    return folder


def test_built_in_samplers_and_plug_ins_are_listed_and_why_one_is_left_out(site: Path) -> None:
    install_example(site, "order_plugin")
    write_order_plugin(site, "raises", "def order(self, asked): raise KeyError('x')")
    write_order_plugin(site, "fickle", "def order(self, asked): import os; return [os.getpid() % asked['samples']]")
    found = {one["name"]: one for one in json.loads(orders("--samples", 100_000, "-o", "json").stdout)}
    assert set(found) >= {*SamplerName, "plugin:numpy-legacy", "plugin:raises", "plugin:fickle"}
    assert [one["leftOutBecause"] for one in found.values() if "plugin" not in one["name"]] == [None] * len(SamplerName)
    assert found["plugin:numpy-legacy"]["from"] == "stoker-numpy-legacy 0.1.0"
    assert len(found["plugin:numpy-legacy"]["order"]) == 8
    assert found["plugin:raises"]["leftOutBecause"] == "it failed: KeyError: 'x'"
    assert found["plugin:fickle"]["leftOutBecause"] == "it tells another order when it is asked the same again"


def test_plug_ins_of_both_kinds_are_listed_and_why_one_cannot_be_loaded(site: Path) -> None:
    install_example(site, "order_plugin")
    write_order_plugin(site, "broken", "import no_such_package")
    listed = json.loads(CliRunner().invoke(main, ["tuning", "plugins", "-o", "json"]).stdout)
    found = {(one["for"], one["name"]): one["leftOutBecause"] for one in listed}
    assert found["framework", "pytorch"] is None
    assert found["order", "numpy-legacy"] is None
    assert "no_such_package" in found["order", "broken"]


def test_the_reads_of_a_rank_are_compared(tmp_path: Path) -> None:
    order = SAMPLERS[SamplerName.TORCH_DISTRIBUTED].order(1000, 3 + 2, 2)
    own = rank_order(order, Loading(1000, 4, (1,)), 1)
    seen = tmp_path / "seen.txt"
    asked = ("torch-distributed", "--seed", 3, "--epoch", 2, "--ranks", 4, "--rank", 1, "--against", seen)
    seen.write_text("\n".join(map(str, own[:100])))
    same = orders(*asked)
    assert (same.exit_code, same.stderr.strip()) == (0, f"all 100 samples of {seen} come as torch-distributed tells")
    seen.write_text("\n".join(map(str, [*own[:7], own[8]])))
    other = orders(*asked)
    assert other.exit_code == 1
    assert f"read 7 was sample {own[8]}, where {own[7]} is due" in other.stderr
    seen.write_text("\n".join(map(str, [*own, 5])))
    assert "where the end is due" in orders(*asked).stderr


@cases(
    "words, code, sentence",
    (["plugin:nobodys"], 3, "there is no sampler plugin:nobodys: stoker tuning orders lists them"),
    (["torch-random", "--ranks", 2, "--rank", 2], 1, "--rank 2 is none of the 2 ranks"),
    (["--against", "x"], 1, "name its sampler"),
    (["torch-random", "--set", "deal"], 1, "--set deal is no NAME=TEXT"),
    (["torch-random", "--against", "/nowhere"], 3, "/nowhere cannot be read"),
)
def test_invalid_options_are_an_error(words: list[object], code: int, sentence: str) -> None:
    done = orders(*words)
    assert done.exit_code == code
    assert sentence in done.stderr


def test_an_unknown_parameter_of_a_sampler_is_shown(tmp_path: Path) -> None:
    assert "NumPy takes no negative seed" in orders("numpy-permutation", "--seed", -1).stdout

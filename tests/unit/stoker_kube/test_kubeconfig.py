"""Selection of the kubeconfig."""

import json
from pathlib import Path

import pytest

from stoker_kube.access.kubeconfig import Kubeconfig
from stoker_kube.errors import ConfigError
from tests.support.cases import cases


def write(file: Path, server: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    config = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
    }
    file.write_text(json.dumps(config))


async def test_kubeconfig_of_the_environment_is_read_at_each_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two"):
        write(tmp_path / name, f"https://{name}")
        monkeypatch.setenv("KUBECONFIG", str(tmp_path / name))
        assert (await Kubeconfig.load(None, None)).host == f"https://{name}"


async def test_an_empty_kubeconfig_variable_means_the_home_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / ".kube" / "config", "https://home")
    monkeypatch.setenv("KUBECONFIG", "")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert (await Kubeconfig.load(None, None)).host == "https://home"


@cases(
    "content, message",
    missing=(None, r"/config does not exist\. Set KUBECONFIG or --kubeconfig"),
    not_YAML=("a: [1", r"^Cannot use [^\n]*/config: [^\n]*\. Check it with `kubectl config get-contexts`\.$"),
    not_a_kubeconfig=("a: 1", r"^Cannot use [^\n]*/config: "),
)
async def test_an_unusable_kubeconfig_is_one_sentence_with_what_to_do(
    content: str | None, message: str, tmp_path: Path
) -> None:
    file = tmp_path / "config"
    if content is not None:
        file.write_text(content)
    with pytest.raises(ConfigError, match=message):
        await Kubeconfig.load(file, None)


async def test_one_of_several_files_in_the_variable_is_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "there", "https://there")
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'missing'}:{tmp_path / 'there'}")
    assert (await Kubeconfig.load(None, None)).host == "https://there"

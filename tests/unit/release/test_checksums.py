"""A release's sums are signed with an SSH key, and a changed file or list is found."""

import subprocess
from pathlib import Path

import pytest

from tools.release.checksums import NAMESPACE, SIGNATURE, sign, write_sums
from tools.release.errors import ReleaseError


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("key") / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path], check=True)
    return path


@pytest.fixture
def sums(tmp_path: Path) -> Path:
    (tmp_path / "chart.tgz").write_bytes(b"chart")
    (tmp_path / "a.whl").write_bytes(b"wheel")
    return write_sums(tmp_path)


def verified(sums: Path, key: Path, namespace: str = NAMESPACE) -> bool:
    """Verify as docs/operations/release.md does."""
    signers = sums.with_name("signers")
    signers.write_text(f"stoker {key.with_suffix('.pub').read_text()}")
    names: list[str | Path] = ["-f", signers, "-I", "stoker", "-n", namespace, "-s", sums.with_name(SIGNATURE)]
    argv = ["ssh-keygen", "-Y", "verify", *names]
    return subprocess.run(argv, input=sums.read_bytes(), capture_output=True, check=False).returncode == 0


def checked(sums: Path) -> bool:
    argv = ["sha256sum", "--check", "--strict", sums.name]
    return subprocess.run(argv, cwd=sums.parent, capture_output=True, check=False).returncode == 0


def test_a_signature_verifies(sums: Path, key: Path) -> None:
    sign(sums, key)
    assert verified(sums, key)
    assert checked(sums)


def test_a_changed_list_is_refused(sums: Path, key: Path) -> None:
    sign(sums, key)
    sums.write_text(sums.read_text().replace("a", "b", 1))
    assert not verified(sums, key)


def test_a_signature_for_another_purpose_is_refused(sums: Path, key: Path) -> None:
    sign(sums, key)
    assert not verified(sums, key, "git")


def test_a_changed_byte_of_a_file_is_found(sums: Path) -> None:
    (sums.parent / "a.whl").write_bytes(b"wheeL")
    assert not checked(sums)


def test_sums_do_not_name_themselves_or_their_signature(sums: Path, key: Path) -> None:
    sign(sums, key)
    assert [line.split()[1] for line in write_sums(sums.parent).read_text().splitlines()] == ["a.whl", "chart.tgz"]


def test_a_file_that_is_no_key_is_refused_with_a_sentence(sums: Path, tmp_path: Path) -> None:
    (tmp_path / "no").write_text("no")
    (tmp_path / "no").chmod(0o600)
    with pytest.raises(ReleaseError, match=r"no cannot sign: .* Give a private SSH key"):
        sign(sums, tmp_path / "no")

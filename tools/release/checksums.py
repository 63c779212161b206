"""SHA256SUMS of a release, and its signature by an SSH key."""

import subprocess
from pathlib import Path

from e2e.cluster.images import digest
from tools.release.errors import ReleaseError

SUMS, SIGNATURE = "SHA256SUMS", "SHA256SUMS.sig"
NAMESPACE = "stoker-release"  # a signature for another purpose does not verify


def write_sums(folder: Path) -> Path:
    """Write SHA256SUMS for all files of the folder, as `sha256sum -c` reads it."""
    sums = folder / SUMS
    files = sorted(path for path in folder.iterdir() if path.name not in (SUMS, SIGNATURE))
    sums.write_text("".join(f"{digest(path)}  {path.name}\n" for path in files), encoding="utf-8")
    return sums


def sign(sums: Path, key: Path) -> Path:
    """Sign SHA256SUMS with a private SSH key. Return the signature. Raises ReleaseError."""
    signature = sums.with_name(SIGNATURE)
    signature.unlink(missing_ok=True)
    argv = ["ssh-keygen", "-q", "-Y", "sign", "-n", NAMESPACE, "-f", str(key), str(sums)]
    # Without a terminal, ssh-keygen asks an agent for the passphrase instead of waiting for input.
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode or not signature.exists():
        hint = "Give a private SSH key without a passphrase, or the public key of one in ssh-agent."
        raise ReleaseError(f"{key} cannot sign: {done.stderr.strip()}. {hint}")
    return signature

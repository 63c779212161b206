#!/usr/bin/env bash
# Installs what Stoker and most of its tests need into a virtual environment; Stoker itself is the Makefile's.
set -euo pipefail
venv=$1
# xfsprogs: some tests mount an XFS, which refuses every call once it is shut down.
tools/debian-packages.sh libfuse3-dev fuse3 openssh-client xfsprogs pkg-config gcc libc6-dev python3-dev python3-venv

python3 - <<'PY'
import sys
if sys.version_info < (3, 11):
    sys.exit(f"Stoker needs Python 3.11 or later; this is {sys.version.split()[0]}")
PY
[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
echo "installing Python packages into $venv"
pip() { "$venv/bin/python" -m pip install -q --disable-pip-version-check "$@"; }
# Every file by its hash, the tools that build from source too: hence they come first, and builds are not isolated.
pip --require-hashes -r requirements/build.txt
pip --require-hashes --no-build-isolation -r requirements/dev.txt

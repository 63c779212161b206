#!/usr/bin/env bash
# Makes requirements/*.txt anew from pyproject.toml: every package at one version, with the hashes of all its files and no
# address. Versions stay as they are unless pyproject.toml asks for others; `tools/lock.sh --upgrade` takes the newest, and
# `tools/lock.sh --upgrade-package NAME` that of one.
set -euo pipefail
cd "$(dirname "$0")/.."
uv=${UV:-.venv/bin/uv}

# Arguments: the file's name, then options of uv. Python 3.11 is the oldest that is supported, and the image's.
lock() {
  local file=requirements/$1.txt
  shift
  "$uv" pip compile --quiet --no-config --python-version 3.11 --python-platform linux --generate-hashes --no-annotate --no-strip-extras \
    --custom-compile-command tools/lock.sh --output-file "$file" "$@"
}

lock dev pyproject.toml --extra operator --extra sidecar --extra dashboard --extra tracing --group dev --group demo --group bench --group docs "$@"
# The others take the versions that the tests ran with, where they share a package.
lock build --group build --constraint requirements/dev.txt "$@"
lock image pyproject.toml --extra operator --extra sidecar --extra dashboard --extra tracing --constraint requirements/dev.txt "$@"
# The kubectl plug-in of a release: the CLI for several versions of Python.
lock cli pyproject.toml --extra dashboard --constraint requirements/dev.txt "$@"
lock clients --group clients --constraint requirements/dev.txt "$@"
# PyTorch and NumPy are Debian's there.
lock trainer --group trainer --excludes <(printf '%s\n' torch numpy) "$@"

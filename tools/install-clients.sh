#!/usr/bin/env bash
# Installs the programs that tests/integration/clients reads mounts with: about a minute and 0.9 GB, most of it PyTorch.
set -euo pipefail
venv=$1
# PyTorch is Debian's, which is for the CPU: PyPI's for Linux comes with CUDA and is several times as large.
tools/debian-packages.sh fio rsync python3-numpy python3-pil python3-torch
echo "installing the clients of the integration tests into $venv"
"$venv/bin/python" -m pip install -q --disable-pip-version-check --require-hashes -r requirements/clients.txt

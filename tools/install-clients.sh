#!/usr/bin/env bash
# Installs the programs that integration tests read mounts and pages with: about a minute and 2 GB, most of it PyTorch,
# JAX and Chromium.
set -euo pipefail
venv=$1
# PyTorch is Debian's, which is for the CPU: PyPI's for Linux comes with CUDA and is several times as large.
tools/debian-packages.sh chromium fio rsync python3-numpy python3-pil python3-torch
echo "installing the clients of the integration tests into $venv"
"$venv/bin/python" -m pip install -q --disable-pip-version-check --require-hashes -r requirements/clients.txt
# The Trainers of Hugging Face and Lightning beside Debian's PyTorch, which is too old for what the other clients use.
echo "installing the Trainers of Hugging Face and Lightning into $venv/trainer"
[ -x "$venv/trainer/bin/python" ] || /usr/bin/python3 -m venv --system-site-packages "$venv/trainer"
"$venv/trainer/bin/python" -m pip install -q --disable-pip-version-check --require-hashes --no-deps -r requirements/trainer.txt
# Prometheus and promtool, which tests run: unpacked, because an installed package starts a server on this machine.
if [ ! -x "$venv/prometheus/usr/bin/promtool" ]; then
  echo "unpacking Debian's Prometheus into $venv/prometheus"
  package=$(mktemp -d)
  trap 'rm -rf "$package"' EXIT
  download() { (cd "$package" && apt-get download -qq -o APT::Sandbox::User=root prometheus); }
  download || { apt-get update -qq && download; }
  dpkg-deb -x "$package"/prometheus_*.deb "$venv/prometheus"
fi

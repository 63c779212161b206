#!/usr/bin/env bash
# Installs what Stoker and its tests need into a virtual environment; Debian packages only where they are missing.
set -euo pipefail
venv=$1
packages=(libfuse3-dev fuse3 pkg-config gcc libc6-dev python3-dev python3-venv)

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
done
if ((${#missing[@]})); then
  [ "$(id -u)" = 0 ] || { echo "run as root, or first: apt-get install ${missing[*]}" >&2; exit 1; }
  echo "installing Debian packages: ${missing[*]}"
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi

python3 - <<'PY'
import sys
if sys.version_info < (3, 11):
    sys.exit(f"Stoker needs Python 3.11 or later; this is {sys.version.split()[0]}")
PY
[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
echo "installing Python packages into $venv"
"$venv/bin/python" -m pip install -q --disable-pip-version-check -c constraints.txt -e '.[operator,sidecar,demo,bench,dev]'

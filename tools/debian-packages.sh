#!/usr/bin/env bash
# Installs those of the named Debian packages that are missing.
set -euo pipefail

missing=()
for package in "$@"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
done
if ((${#missing[@]})); then
  [ "$(id -u)" = 0 ] || { echo "run as root, or first: apt-get install ${missing[*]}" >&2; exit 1; }
  echo "installing Debian packages: ${missing[*]}"
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi

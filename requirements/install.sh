#!/bin/bash
# install.sh ENV PYTHON: makes .venv out of requirements/ENV.lock (cpu or gpu), or brings it into step with a changed one.
# An installation that was killed, or one for the other ENV, is thrown away; one that failed in an orderly way goes on.
set -euo pipefail
cd "$(dirname "$0")/.."
environment=$1 python=$2
lock=requirements/$environment.lock
ours=.venv/.made-by-make   # only a .venv that was made here is ever removed
going=.venv/.installing    # there while an installation runs, and after it was killed
stamp=.venv/.installed-$environment
torch_cpu_index=https://download.pytorch.org/whl/cpu

if [ -e .venv ] && [ ! -e $ours ]; then
  echo ".venv was not made by make: move it away, then run make again" >&2
  exit 1
fi
for other in .venv/.installed-*; do
  if [ -e "$other" ] && [ "$other" != "$stamp" ]; then rm -rf .venv; fi
done
if [ -e $going ]; then rm -rf .venv; fi

if [ ! -e .venv ]; then
  if ! command -v "$python" >/dev/null; then
    echo "$python is not on the PATH: install Python 3.11, or say where it is: make PYTHON=/path/to/python3.11" >&2
    exit 1
  fi
  mkdir .venv
  touch $ours $going
  "$python" -m venv .venv
fi
touch $going
rm -f "$stamp"

pip_install() { .venv/bin/python -m pip install --disable-pip-version-check --no-deps "$@"; }
install_all() {
  # torch's CPU build is on PyTorch's own index. That is asked only where the configured one has no such build: pip
  # retries an index that does not answer for minutes.
  local torch
  torch=$(grep '^torch==.*+cpu$' "$lock" || true)
  if [ -n "$torch" ]; then
    pip_install "$torch" || pip_install --index-url $torch_cpu_index "$torch" || return 1
  fi
  pip_install -r "$lock" && pip_install --no-build-isolation -e .
}
if ! install_all; then
  rm -f $going
  echo "the installation failed (above): put right what it says, then run make again; it goes on where it was" >&2
  exit 1
fi
touch "$stamp"
rm -f $going

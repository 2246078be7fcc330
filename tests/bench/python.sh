#!/bin/sh
# Runs Python with current PyTorch, in a separate environment that the first call creates: build/bench-venv.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
environment="$root/build/bench-venv"
if [ ! -x "$environment/bin/python" ] || ! "$environment/bin/python" -c 'import numpy, torch' 2> /dev/null; then
  # Debian packages ensurepip separately as python3-venv; torch.compile builds against Python.h. Any Python from 3.10 on
  # works.
  "$root/setup.sh" python3-venv python3-dev
  echo "installing PyTorch into $environment (about two minutes, once)" >&2
  python3 -m venv "$environment"
  "$environment/bin/python" -m pip install --quiet --upgrade torch numpy
fi
exec "$environment/bin/python" "$@"

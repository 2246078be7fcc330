#!/bin/sh
# Python with today's PyTorch, in an environment of its own that the first call makes: build/bench-venv.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
environment="$root/build/bench-venv"
if [ ! -x "$environment/bin/python" ] || ! "$environment/bin/python" -c 'import numpy, torch' 2> /dev/null; then
  # Debian splits ensurepip off as python3-venv; torch.compile builds against Python.h. Any Python from 3.10 on will do.
  "$root/setup.sh" python3-venv python3-dev
  echo "installing PyTorch into $environment (about two minutes, once)" >&2
  python3 -m venv "$environment"
  "$environment/bin/python" -m pip install --quiet --upgrade torch numpy
fi
exec "$environment/bin/python" "$@"

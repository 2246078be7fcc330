#!/bin/sh
# Compares the quick-start trainer with PyTorch on this machine's processor: README.md beside this file.
bench=$(cd "$(dirname "$0")" && pwd)
exec "$bench/python.sh" "$bench/quickstart.py" "$@"

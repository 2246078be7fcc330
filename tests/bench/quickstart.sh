#!/bin/sh
# Compares the quick-start trainer with PyTorch on this machine's CPU: see README.md in this folder.
bench=$(cd "$(dirname "$0")" && pwd)
exec "$bench/python.sh" "$bench/quickstart.py" "$@"

#!/bin/sh
# Builds llmc and runs every test that needs no GPU. Ends with ctest's summary; exit code 0 when all pass.
set -eu
cd "$(dirname "$0")"
./setup.sh
cmake -G Ninja -S . -B build
cmake --build build -j "${LLMC_JOBS:-$(nproc)}"
ctest --test-dir build --output-on-failure -LE gpu -j "${LLMC_JOBS:-$(nproc)}"

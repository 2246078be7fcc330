#!/bin/sh
# Builds llmc and runs every test that needs no GPU. Ends with ctest's summary and with what was left out; exit code 0 when
# all pass.
set -eu
cd "$(dirname "$0")"
jobs="${LLMC_JOBS:-$(nproc)}"
minutes="build/test_minutes"
echo "On two cores the build takes 4 to 7 minutes the first time, and the tests 12 to 17 after it."
[ ! -f "$minutes" ] || echo "The last time that all of it passed here, build and tests took $(cat "$minutes") minutes."
begin=$(date +%s)
./setup.sh
# So that tests which build a copy of the sources, where warnings are none of their business (tests/mutations), find in ccache what
# is compiled here; the sloppiness is what ccache asks for with a precompiled header (tests/sim).
export CCACHE_BASEDIR="$PWD" CCACHE_NOHASHDIR=1 CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_IGNOREOPTIONS=-Werror
cmake -G Ninja -S . -B build -DCMAKE_COMPILE_WARNING_AS_ERROR=ON
cmake --build build -j "$jobs"
# A thread that waits for another gives its core to the other tests: spinning was half of a small trainer's time of processor.
export OMP_WAIT_POLICY=passive
status=0
# One test more than processors: some wait for a limit of time, for another rank, or for the one compiler that they have called.
ctest --test-dir build --output-on-failure -LE gpu -j $((jobs + 1)) || status=$?
[ "$status" != 0 ] || echo $((($(date +%s) - begin + 59) / 60)) > "$minutes"

# Names after a count; nothing where there are none.
left_out() {
  [ -z "$2" ] || printf 'Left out, %s: %s\n%s\n' "$1" "$(echo "$2" | wc -l)" "$(echo "$2" | sed 's/^/  /')"
}
names() { ctest --test-dir build -N "$@" | sed -n 's/^ *Test *#[0-9]*: //p'; }
left_out "for want of a program that ctest names as disabled (nvcc, clang++-19, clang-format-19)" "$(names -LE gpu | sed -n 's/ (Disabled)$//p')"
left_out "since they need a GPU (ctest --test-dir build -L gpu runs them)" "$(names -L gpu | sed 's/ (Disabled)$//')"
exit "$status"

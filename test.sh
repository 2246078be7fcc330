#!/bin/sh
# Builds llmc and runs every test that needs no GPU. Ends with ctest's summary and the tests left out; exit code 0 if
# all pass.
set -eu
cd "$(dirname "$0")"
jobs="${LLMC_JOBS:-$(nproc)}"
minutes="build/test_minutes"
if [ -x build/llmc ]; then
  echo "llmc is built. On two cores the tests' programs take 7 to 18 minutes the first time, and the tests 14 to 30 after them."
else
  echo "On two cores the build takes 9 to 21 minutes the first time, and the tests 14 to 30 after it."
fi
[ ! -f "$minutes" ] || echo "The last time that all of it passed here, build and tests took $(cat "$minutes") minutes."
begin=$(date +%s)
./setup.sh
. ./cmake/build.sh
configure
cmake --build build -j "$jobs"
# A waiting thread yields its core to other tests: spinning took half of a small trainer's CPU time.
export OMP_WAIT_POLICY=passive
status=0
# Two tests more than processors, because some wait for a time limit, another rank, or the one compiler they have called.
ctest --test-dir build --output-on-failure -LE gpu -j $((jobs + 2)) || status=$?
# The next call of ctest, even one that only lists tests, empties its own log.
log="build/tests.log"
cp build/Testing/Temporary/LastTest.log "$log"
[ "$status" != 0 ] || echo $((($(date +%s) - begin + 59) / 60)) > "$minutes"

# Names of tests that skipped themselves, and why. Values of a test with parameters do not count.
skipped() {
  awk '/^[0-9]+\/[0-9]+ Test(ing)?: /{name = $3; if (match(name, /\.[A-Za-z0-9_]+\//)) name = substr(name, 1, RSTART + RLENGTH - 2)}
    /^test_[A-Za-z0-9_]+ \(/{part = " " $1}
    / \.\.\. skipped /{sub(/.* \.\.\. skipped /, ""); print name part ": " $0}
    why{if (!said[name]++) print name ": " $0; why = 0}
    /: Skipped$/{why = 1}' "$log"
}

# Prints names after a count; nothing if there are none.
left_out() {
  [ -z "$2" ] || printf 'Left out, %s: %s\n%s\n' "$1" "$(echo "$2" | wc -l)" "$(echo "$2" | sed 's/^/  /')"
}
names() { ctest --test-dir build -N "$@" | sed -n 's/^ *Test *#[0-9]*: //p'; }
left_out "for want of a program that ctest names as disabled (nvcc, clang++-19, clang-format-19, yapf3 0.32)" "$(names -LE gpu | sed -n 's/ (Disabled)$//p')"
left_out "since they need a GPU (ctest --test-dir build -L gpu runs them)" "$(names -L gpu | sed 's/ (Disabled)$//')"
left_out "in whole or in part, since this machine lacks something" "$(skipped)"

# Last, where whoever reads the end of a long log finds it: how the tests that failed ended.
if [ "$status" != 0 ]; then
  echo "The last lines of each test that failed (all of them are above, and in $log):"
  awk '/^[0-9]+\/[0-9]+ Testing: /{n = 0} {lines[n++] = substr($0, 1, 1000)}
       /^Test (Failed|timeout)/{for (i = n > 45 ? n - 45 : 0; i < n; ++i) print "  " lines[i]}' "$log"
fi
exit "$status"

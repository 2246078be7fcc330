#!/bin/sh
# The main use, end to end: installs what llmc needs, builds it, makes a data set from the Python standard library's
# sources, compiles specs/quickstart.yaml into a trainer and trains. A second run skips completed steps.
set -eu
cd "$(dirname "$0")"
say() { printf '\n== %s\n' "$*"; }

say "packages"
./setup.sh
[ -x build/llmc ] && say "llmc, as far as its sources have changed" || say "llmc: 1 to 3 minutes on two cores"
. ./cmake/build.sh
configure > build-configure.log 2>&1 || { cat build-configure.log; exit 1; }
grep downloading build-configure.log || true
rm -f build-configure.log
cmake --build build --target llmc
if [ ! -f data/quickstart/dataset.json ]; then
  say "a data set from the Python standard library"
  build/llmc data build --from /usr/lib/python3.[0-9]* --glob '*.py' --vocab-size 4096 -o data/quickstart
fi
say "training; stop with Ctrl-C, run this again to go on"
build/llmc run specs/quickstart.yaml "$@"
cat <<'END'

Next:
  build/llmc plan specs/quickstart.yaml                     what the run needs, before it runs
  less build/quickstart/kernels/rms_norm_forward.cpp        a kernel, made for this run
  build/llmc diff specs/quickstart.yaml specs/quickstart.yaml model.hidden_size=320 --full
  build/quickstart/trainer --help                           every value that can change without compiling

A run of your own: a spec, its data (FOLDER: your text; here llmc's own sources), and the trainer
  build/llmc init -o mine.yaml
  build/llmc data build --from compiler runtime docs --vocab-size 4096 -o data/mine
  build/llmc run mine.yaml
END

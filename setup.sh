#!/bin/sh
# Installs what llmc needs on Debian 12 or 13, and the packages given as arguments; skips installed ones. OpenBLAS, which
# Debian then takes for all programs, shortens PyTorch's part of the tests.
set -eu
packages="g++ cmake ninja-build ccache git
  llvm-19-dev libclang-19-dev clang-19 libclang-rt-19-dev clang-format-19 yapf3
  libdnnl-dev libsentencepiece-dev libyaml-cpp-dev libcli11-dev libfmt-dev nlohmann-json3-dev libxxhash-dev libutf8proc-dev
  zlib1g-dev libzstd-dev
  libgtest-dev libgmock-dev libbenchmark-dev libboost-context-dev
  openmpi-bin libopenmpi-dev iproute2
  python3 python3-torch python3-numpy python3-yaml libopenblas0-serial $*"
missing=""
for p in $packages; do
  dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing="$missing $p"
done
[ -n "$missing" ] || exit 0
as_root=""
if [ "$(id -u)" != 0 ]; then as_root="sudo"; fi
echo "installing:$missing"
# Another apt may be running, as on a machine that has just booted: waits up to ten minutes for its locks, with a message.
# Locks that cannot be taken for another reason, such as missing rights, are an error like any other.
apt() {
  waits=0
  # env: sudo passes on no variables.
  until output=$($as_root env LC_ALL=C DEBIAN_FRONTEND=noninteractive apt-get "$@" 2>&1); do
    case $output in
      *"ould not get lock"* | *"is another process using it"* | *"locked by another process"*) waits=$((waits + 1)) ;;
      *) fail ;;
    esac
    [ "$waits" -le 200 ] || fail
    [ "$waits" -gt 1 ] || echo "waiting for another apt to end"
    sleep 3
  done
}
fail() { echo "$output" >&2; exit 1; }
apt update -qq
# shellcheck disable=SC2086  # a list of names
apt install -y -qq --no-install-recommends $missing

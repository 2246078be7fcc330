# Sourced by quickstart.sh and test.sh in the root of the sources: both configure alike and share a compiler cache, so that each uses
# what the other has built.

# So that a build of a copy of the sources (tests/mutations) finds in ccache what is compiled here, whether warnings are errors in it
# or not; the sloppiness is what ccache asks for with a precompiled header (tests/sim).
export CCACHE_BASEDIR="$PWD" CCACHE_NOHASHDIR=1 CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_IGNOREOPTIONS=-Werror
configure() { cmake -G Ninja -S . -B build -DCMAKE_COMPILE_WARNING_AS_ERROR=ON; }

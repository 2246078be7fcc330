# Sourced by quickstart.sh and test.sh in the root of the sources: both configure equally and share a compiler cache, so
# that each reuses the other's build.

# With these, a build of a copy of the sources (tests/mutations) finds objects compiled here in ccache, whether or not
# warnings are errors. The sloppiness is required by ccache for a precompiled header (tests/sim).
export CCACHE_BASEDIR="$PWD" CCACHE_NOHASHDIR=1 CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_IGNOREOPTIONS=-Werror
configure() { cmake -G Ninja -S . -B build -DCMAKE_COMPILE_WARNING_AS_ERROR=ON; }

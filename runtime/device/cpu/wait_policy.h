// How long OpenMP threads spin before they sleep.
#pragma once

namespace llmc {

/// libgomp's threads spin for milliseconds at the end of every parallel region. On a machine that other processes use
/// too, a spinning thread holds the core that the last worker waits for, and each of a step's regions costs a turn of
/// the scheduler. libgomp reads its settings before main, so this sets a short spin and starts the program again, once;
/// a user's own OMP_WAIT_POLICY or GOMP_SPINCOUNT stands. Nothing is started again where the user binds threads to
/// processors: libgomp has bound this one by now, and all of the new program's would share its processor.
void limit_spinning(char** argv);

}  // namespace llmc

// Limits how long OpenMP threads spin before they sleep.
#pragma once

namespace llmc {

/// libgomp's threads spin for milliseconds at the end of every parallel region. On a shared machine a spinning thread
/// occupies the core that the last worker needs, and each region of a step costs a scheduler time slice. libgomp reads
/// its settings before main, so this sets a short spin and restarts the program by exec, once. The user's own
/// OMP_WAIT_POLICY or GOMP_SPINCOUNT is kept. If the user binds threads to processors there is no restart: libgomp has
/// already bound this thread, and all threads of the new program would share its processor.
void limit_spinning(char** argv);

}  // namespace llmc

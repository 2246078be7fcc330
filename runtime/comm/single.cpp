// Collectives of a run that is one process: sums over one rank are what they were.
#include "comm/collectives.h"

namespace llmc {

struct Communicator::Impl {};

Communicator::Communicator(Device&) {}
Communicator::~Communicator() = default;

int Communicator::rank() const { return 0; }
int Communicator::world_size() const { return 1; }
std::string Communicator::description() const { return "1 rank"; }

void Communicator::all_reduce_sum(float*, std::size_t, Stream&) {}
void Communicator::broadcast(void*, std::size_t, int, Stream&) {}

}  // namespace llmc

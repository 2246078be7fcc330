// A complete trainer around the fake program.
#include "fake_program.h"

int main(int argc, char** argv) { return llmc::train_main(argc, argv, llmc::fake::program()); }

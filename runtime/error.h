// The one exception that reaches a user: an exit code and a message saying what is wrong and what to do.
#pragma once

#include <stdexcept>
#include <string>

namespace llmc {

/// Exit codes of llmc and of every trainer. Launchers may retry resume_me and peer_lost.
enum class Exit : int {
  done = 0,
  spec = 1,  // spec or check failed, or `diff` found differences
  usage = 2,
  toolchain = 3,
  does_not_fit = 4,
  data = 5,
  checkpoint = 6,
  numerics = 7,
  internal = 70,
  resume_me = 75,  // stopped early with everything saved
  peer_lost = 170,
};

class Failure : public std::runtime_error {
 public:
  Failure(Exit code, const std::string& message) : std::runtime_error(message), code_(code) {}
  Exit code() const { return code_; }

 private:
  Exit code_;
};

}  // namespace llmc

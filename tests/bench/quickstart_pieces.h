// Times every kernel and every GEMM of an emitted step; quickstart_pieces.py inserts the calls.
#pragma once

#include <time.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

namespace llmc::bench {

/// Wall-clock seconds, or with LLMC_PIECES_CPU this process's CPU time.
inline double now() {
  static const clockid_t clock = std::getenv("LLMC_PIECES_CPU") ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC;
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// Seconds of each piece, step by step, written as JSON to the file named by LLMC_PIECES when the process exits. With
/// LLMC_PRODUCTS_ALONE every second step runs only its GEMMs, on the previous step's data: whole steps and GEMMs
/// alternate, so that a slowdown of the machine affects both.
class Pieces {
 public:
  static Pieces& get() {
    static Pieces pieces;
    return pieces;
  }

  ~Pieces() {
    std::FILE* file = std::fopen(std::getenv("LLMC_PIECES"), "w");
    if (!file) return;
    const char* comma = "{";
    for (const auto& [name, piece] : pieces_) {
      std::fprintf(file, "%s\n\"%s\": {\"product\": %s, \"calls\": %d, \"seconds\": [", comma, name.c_str(),
                   piece.product ? "true" : "false", piece.calls);
      for (std::size_t i = 0; i < piece.seconds.size(); ++i)
        std::fprintf(file, "%s%.9f", i ? ", " : "", piece.seconds[i]);
      std::fprintf(file, "]}");
      comma = ",";
    }
    std::fprintf(file, "\n}\n");
    std::fclose(file);
  }

  bool runs(bool product) const { return product || !alternate_ || step_ % 2 == 0; }

  void add(const char* name, bool product, double seconds) {
    Piece& piece = pieces_[name];
    piece.product = product;
    piece.seconds.resize(step_ + 1);
    piece.seconds[step_] += seconds;
    piece.calls += step_ == 0;
  }

  void end_step() { ++step_; }

 private:
  struct Piece {
    bool product = false;
    int calls = 0;                // in one step
    std::vector<double> seconds;  // of each step
  };
  std::map<std::string, Piece> pieces_;
  std::size_t step_ = 0;
  bool alternate_ = std::getenv("LLMC_PRODUCTS_ALONE") != nullptr;
};

/// Times the statement that it is declared for.
class Piece {
 public:
  Piece(const char* name, bool product) : name_(name), product_(product), runs_(Pieces::get().runs(product)) {}
  ~Piece() {
    if (runs_) Pieces::get().add(name_, product_, now() - begin_);
  }
  bool runs() const { return runs_; }

 private:
  const char* name_;
  bool product_, runs_;
  double begin_ = now();
};

struct StepEnd {
  ~StepEnd() { Pieces::get().end_step(); }
};

}  // namespace llmc::bench

// The functions of fake.yaml's step, in place of the emitted ones: a bigram model, softmax over one row of the
// embedding, trained by AdamW. Its losses and gradients can be checked by hand, and a test can make any of its steps
// fail or wait. The constants of the program, the buffers of its arena and its texts are those that llmc emits.
//
// FAKE_SKIP="3,4": the third and fourth optimizer step of this process get a loss that is not finite.
// FAKE_SPIKE="3,4", FAKE_STEEP="3,4": a loss larger by 5, or a gradient norm larger by 50.
// FAKE_STEP_MS=20: each optimizer step takes at least this long.
// FAKE_GATES="4,8": the fourth and the eighth optimizer step of this process create a file at-4 (at-8) in its folder
// and wait for go-4 (go-8).
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <thread>

#include "device/cpu/instructions.h"
#include "program/program.h"
#include "step.h"
#include "step/random.h"

namespace llmc {

const std::uint64_t kInstructions = kInstructionsOfSource;

struct Step {
  std::byte* arena;
  std::span<const std::size_t> places;  // of the sharded buffers
  int optimizer_steps = 0;

  /// The `index`-th buffer with this use.
  template <typename T>
  T* at(Use use, int index = 0);
};

namespace {

const ProgramInfo& info() { return program().info; }

const ParameterInfo& embedding() {
  return *std::ranges::find(info().parameters, std::string("model.embed_tokens.weight"), &ParameterInfo::name);
}

/// Whether FAKE_...'s `list` has the number.
bool listed(const char* list, int number) {
  std::stringstream text(list ? list : "");
  for (std::string word; std::getline(text, word, ',');)
    if (std::stoi(word) == number) return true;
  return false;
}

/// Logits after `token`.
float* row_of(Step& step, Use buffer, int token) {
  return step.at<float>(buffer) + embedding().offset + token * embedding().pitch;
}

/// Adds the results of one position, times `scale`, and its gradient to the table's row if `trains`.
void position(Step& step, int token, int target, float scale, bool trains, StepResults& results) {
  if (target < 0) return;
  const std::int64_t vocabulary = info().vocab_size;
  const float* row = row_of(step, Use::masters, token);
  double sum = 0, weighted = 0;
  for (std::int64_t c = 0; c < vocabulary; ++c) {
    sum += std::exp(static_cast<double>(row[c]));
    weighted += std::exp(static_cast<double>(row[c])) * row[c];
  }
  if (trains)
    for (std::int64_t c = 0; c < vocabulary; ++c)
      row_of(step, Use::gradients, token)[c] +=
          scale * static_cast<float>(std::exp(static_cast<double>(row[c])) / sum - (c == target));
  results.loss += scale * (std::log(sum) - row[target]);
  results.top1 += row[target] >= *std::max_element(row, row + vocabulary) ? scale : 0;
  results.lse += scale * std::log(sum);
  results.entropy += scale * (std::log(sum) - weighted / sum);
  results.lse_max = std::max(results.lse_max, std::log(sum));
}

/// Results that a pass adds to; zeroed in the first pass.
StepResults& begin(Step& step, bool first) {
  StepResults* results = step.at<StepResults>(Use::results);
  if (first) {
    *results = {.updates = results->updates};
    results->lse_max = -std::numeric_limits<double>::infinity();
  }
  return *results;
}

void wait_where_asked(int number) {
  if (const char* wait = std::getenv("FAKE_STEP_MS"))
    std::this_thread::sleep_for(std::chrono::milliseconds(std::atoi(wait)));
  if (!listed(std::getenv("FAKE_GATES"), number)) return;
  std::ofstream("at-" + std::to_string(number)).close();
  while (!std::filesystem::exists("go-" + std::to_string(number)))
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

/// Fills what an optimizer step reports, before its update.
StepResults& report(Step& step) {
  const StepScalars limits = *step.at<StepScalars>(Use::scalars);
  StepResults& results = *step.at<StepResults>(Use::results);
  const int number = step.optimizer_steps;
  if (listed(std::getenv("FAKE_SKIP"), number)) results.loss = std::numeric_limits<double>::quiet_NaN();
  double squares = 0;
  const float* gradients = step.at<float>(Use::gradients);
  for (std::int64_t i = 0; i < info().parameter_elements; ++i)
    squares += static_cast<double>(gradients[i]) * gradients[i];
  results.grad_norm = static_cast<float>(std::sqrt(squares));
  results.clip_scale = limits.clip_norm > 0 ? std::min(1.0f, limits.clip_norm / results.grad_norm) : 1.0f;
  if (listed(std::getenv("FAKE_SPIKE"), number)) results.loss += 5;
  if (listed(std::getenv("FAKE_STEEP"), number)) results.grad_norm += 50;
  results.skipped = !std::isfinite(results.loss) || !std::isfinite(results.grad_norm) ? kNotFinite
                    : results.loss > limits.loss_limit                                ? kLossAbove
                    : results.grad_norm > limits.grad_norm_limit                      ? kGradNormAbove
                                                                                      : kApplied;
  results.updates += results.skipped == kApplied;
  for (std::size_t p = 0; p < info().parameters.size(); ++p) {
    const float of_parameter[] = {1.5f, 2.0f, 2.5f};  // gradient, weight, update
    std::ranges::copy(of_parameter, step.at<float>(Use::parameter_norms) + 3 * p);
  }
  return results;
}

}  // namespace

template <typename T>
T* Step::at(Use use, int index) {
  std::size_t sharded = 0;
  for (const Buffer& buffer : info().buffers) {
    const std::size_t offset = is_sharded(buffer.use, info().shard) ? places[sharded++] : buffer.offset;
    if (buffer.use == use && index-- == 0) return reinterpret_cast<T*>(arena + offset);
  }
  return nullptr;
}

Step* create_step(Device&, Communicator&, const Shares&, std::byte* arena, std::span<const std::size_t> places) {
  return new Step{arena, places};
}
void destroy_step(Step* step) { delete step; }

void initialise(Step& step, std::uint64_t seed) {
  const InitRule* rules = step.at<InitRule>(Use::init_rules);
  for (std::size_t p = 0; p < info().parameters.size(); ++p)
    for (std::uint32_t r = 0; r < rules[p].rows; ++r)
      for (std::uint32_t c = 0; c < rules[p].cols; ++c)
        step.at<float>(Use::masters)[rules[p].offset + r * rules[p].pitch + c] =
            rules[p].std > 0
                ? rules[p].std *
                      static_cast<float>(uniform(philox({r, c, 0, 0}, {static_cast<std::uint32_t>(seed), 0})) - 0.5)
                : rules[p].value;
}

void refresh_copies(Step&) {}
void gather_weights(Step&) {}
void run_piece(Step&, StepPiece, std::size_t) {}

/// Processes runs of equal tokens, as a real embedding's backward does, so that every index array is used.
void micro_batch(Step& step, bool first, bool) {
  if (first) std::fill_n(step.at<float>(Use::gradients), info().parameter_elements, 0.0f);
  const float scale = step.at<StepScalars>(Use::scalars)->loss_scale;
  StepResults& results = begin(step, first);
  for (int run = 0; run < *step.at<int>(Use::run_count); ++run)
    for (int p = step.at<int>(Use::run_begin)[run]; p < step.at<int>(Use::run_begin)[run + 1]; ++p) {
      const int at = step.at<int>(Use::embedding_order)[p];
      const int token = step.at<int>(Use::tokens)[at];
      if (token != step.at<int>(Use::run_token)[run]) results.loss = std::numeric_limits<double>::quiet_NaN();
      position(step, token, step.at<int>(Use::targets)[at], scale, true, results);
    }
}

void optimizer_step(Step& step) {
  wait_where_asked(++step.optimizer_steps);
  const StepResults& results = report(step);
  if (results.skipped) return;
  float *p = step.at<float>(Use::masters), *m = step.at<float>(Use::state), *v = step.at<float>(Use::state, 1);
  const float* g = step.at<float>(Use::gradients);
  const int chunks = step.at<int>(Use::first_chunk)[info().parameters.size()];
  for (const Chunk& chunk : std::span(step.at<Chunk>(Use::chunks), static_cast<std::size_t>(chunks))) {
    const AdamwScalars& adamw = step.at<AdamwScalars>(Use::optimizer_scalars)[chunk.group];
    const GroupScalars& group = step.at<GroupScalars>(Use::group_scalars)[chunk.group];
    const bool unknown = results.updates - adamw.updates > 1;
    for (int k = 0; k < chunk.length; ++k) {
      const std::int64_t i = chunk.offset + k, s = chunk.state + k;
      const float gradient = results.clip_scale * g[i];
      m[s] = adamw.beta1 * m[s] + (1 - adamw.beta1) * gradient;
      v[s] = adamw.beta2 * v[s] + (1 - adamw.beta2) * gradient * gradient;
      p[i] -= group.lr * group.weight_decay * p[i];
      p[i] -= group.lr / adamw.bias_correction1[unknown] * m[s] /
              (std::sqrt(v[s] / adamw.bias_correction2[unknown]) + adamw.eps);
    }
  }
}

void evaluate(Step& step, bool first) {
  StepResults& results = begin(step, first);
  for (std::int64_t i = 0; i < info().sequence_length * info().micro_batch; ++i)
    position(step, step.at<int>(Use::tokens)[i], step.at<int>(Use::targets)[i],
             step.at<StepScalars>(Use::scalars)->loss_scale, false, results);
}

void next_logits(Step& step) {
  for (std::int64_t sample = 0; sample < info().micro_batch; ++sample) {
    const int token = step.at<int>(Use::tokens)[step.at<int>(Use::positions)[sample]];
    std::copy_n(row_of(step, Use::masters, token), info().vocab_size,
                step.at<float>(Use::sample_logits) + sample * info().vocab_pitch);
  }
}

}  // namespace llmc

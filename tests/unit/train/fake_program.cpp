#include "fake_program.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <thread>
#include <utility>
#include <vector>

#include "train/random.h"

namespace llmc {

struct Step {
  std::byte* arena;
  int optimizer_steps = 0;

  template <typename T>
  T* at(std::size_t offset) {
    return reinterpret_cast<T*>(arena + offset);
  }
};

namespace fake {
namespace {

constexpr std::int64_t kElements = kVocab * kPitch + kPitch;  // the table, and a vector that has no gradient
constexpr std::size_t kBuffer = 1024, kSmall = 256;

constexpr ParameterInfo kParameters[] = {
    {"model.embed_tokens.weight", 0, kVocab, kVocab, kPitch, true, true, 0.5f, 0, 1},
    {"model.norm.weight", kVocab* kPitch, 1, kVocab, kVocab, false, false, 0, 1, 2},
};
constexpr double kFrequencies[] = {1.0, 0.01};

constexpr ArenaLayout layout() {
  ArenaLayout a{};
  std::size_t end = 0;
  const auto take = [&](std::size_t bytes) { return std::exchange(end, end + bytes); };
  a.masters = a.copies = take(kBuffer);
  a.gradients = take(kBuffer);
  a.exp_avg = take(kBuffer);
  a.exp_avg_sq = take(kBuffer);
  for (auto* field : {&a.scalars, &a.results, &a.tokens, &a.targets, &a.embedding_order, &a.run_begin, &a.run_token,
                      &a.run_count, &a.positions, &a.rope_table, &a.first_chunk, &a.init_rules, &a.parameter_norms})
    *field = take(kSmall);
  a.chunks = take(kBuffer);
  a.sample_logits = take(kBuffer);
  a.bytes = end;
  return a;
}
static_assert(kElements * sizeof(float) <= kBuffer);

int setting(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text ? std::atoi(text) : otherwise;
}

int length() { return setting("FAKE_LENGTH", kLength); }
int micro_batch_size() { return setting("FAKE_MICRO_BATCH", kMicroBatch); }

const ProgramInfo& info() {
  static const ProgramInfo table = [] {
    ProgramInfo i{};
    i.name = "fake";
    static const std::string fingerprint = "fa" + std::to_string(length()) + std::to_string(micro_batch_size());
    static const std::string yaml = spec_yaml();
    i.fingerprint = fingerprint.c_str();
    i.plan_text = "the plan\n";
    i.plan_json = "{\"launches\": []}\n";
    i.spec_yaml = yaml.c_str();
    i.config_json = "{}\n";
    i.arch = "x86-64";
    i.vocab_size = kVocab;
    i.vocab_pitch = kPitch;
    i.hidden_size = kVocab;
    i.layers = 1;
    i.head_dim = 4;
    i.sequence_length = length();
    i.micro_batch = micro_batch_size();
    i.sequences_per_step = 16 / length();
    i.parameter_count = kVocab * kVocab + kVocab;
    i.parameter_elements = kElements;
    i.parameters = kParameters;
    i.inverse_frequencies = kFrequencies;
    i.chunk_elements = 64;
    i.chunk_count = kVocab * kPitch / 64 + 1;
    i.arena = layout();
    return i;
  }();
  return table;
}

Step* create(Device&, std::byte* arena) { return new Step{arena}; }
void destroy(Step* step) { delete step; }

void initialise(Step& step, std::uint64_t seed) {
  const InitRule* rules = step.at<InitRule>(info().arena.init_rules);
  float* masters = step.at<float>(info().arena.masters);
  for (std::size_t p = 0; p < info().parameters.size(); ++p)
    for (std::uint32_t r = 0; r < rules[p].rows; ++r)
      for (std::uint32_t c = 0; c < rules[p].cols; ++c)
        masters[rules[p].offset + r * rules[p].pitch + c] =
            rules[p].std > 0
                ? rules[p].std *
                      static_cast<float>(uniform(philox({r, c, 0, 0}, {static_cast<std::uint32_t>(seed), 0})) - 0.5)
                : rules[p].value;
}

void refresh_copies(Step&) {}

/// Loss of one position times `scale`, its gradient added to the table's row where `gradients` is not null.
double position(Step& step, int token, int target, float scale, float* gradients) {
  if (target < 0) return 0;
  const float* row = step.at<float>(info().arena.masters) + token * kPitch;
  double sum = 0;
  for (int c = 0; c < kVocab; ++c) sum += std::exp(static_cast<double>(row[c]));
  if (gradients)
    for (int c = 0; c < kVocab; ++c)
      gradients[token * kPitch + c] +=
          scale * static_cast<float>(std::exp(static_cast<double>(row[c])) / sum - (c == target));
  return scale * (std::log(sum) - row[target]);
}

void add_loss(Step& step, bool first, double loss) {
  StepResults* results = step.at<StepResults>(info().arena.results);
  results->loss = (first ? 0 : results->loss) + loss;
}

/// By runs of equal tokens, as a real embedding's backward goes, so that every index array counts.
void micro_batch(Step& step, bool first, bool) {
  const ArenaLayout& a = info().arena;
  float* gradients = step.at<float>(a.gradients);
  if (first) std::fill_n(gradients, kElements, 0.0f);
  const float scale = step.at<StepScalars>(a.scalars)->loss_scale;
  double loss = 0;
  for (int run = 0; run < *step.at<int>(a.run_count); ++run)
    for (int p = step.at<int>(a.run_begin)[run]; p < step.at<int>(a.run_begin)[run + 1]; ++p) {
      const int at = step.at<int>(a.embedding_order)[p];
      const int token = step.at<int>(a.tokens)[at];
      if (token != step.at<int>(a.run_token)[run]) loss = std::numeric_limits<double>::quiet_NaN();
      loss += position(step, token, step.at<int>(a.targets)[at], scale, gradients);
    }
  add_loss(step, first, loss);
}

bool listed(const char* list, int number) {
  std::stringstream text(list ? list : "");
  for (std::string word; std::getline(text, word, ',');)
    if (std::stoi(word) == number) return true;
  return false;
}

void optimizer_step(Step& step) {
  const ArenaLayout& a = info().arena;
  if (const char* wait = std::getenv("FAKE_STEP_MS"))
    std::this_thread::sleep_for(std::chrono::milliseconds(std::atoi(wait)));
  const StepScalars s = *step.at<StepScalars>(a.scalars);
  StepResults* results = step.at<StepResults>(a.results);
  const int number = ++step.optimizer_steps;
  if (listed(std::getenv("FAKE_GATES"), number)) {
    std::ofstream("at-" + std::to_string(number)).close();
    while (!std::filesystem::exists("go-" + std::to_string(number)))
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (listed(std::getenv("FAKE_SKIP"), number)) results->loss = std::numeric_limits<double>::quiet_NaN();
  float *p = step.at<float>(a.masters), *g = step.at<float>(a.gradients), *m = step.at<float>(a.exp_avg),
        *v = step.at<float>(a.exp_avg_sq);
  double squares = 0;
  for (std::int64_t i = 0; i < kElements; ++i) squares += static_cast<double>(g[i]) * g[i];
  results->grad_norm = static_cast<float>(std::sqrt(squares));
  results->clip_scale = s.clip_norm > 0 ? std::min(1.0f, s.clip_norm / results->grad_norm) : 1.0f;
  results->skipped = !std::isfinite(results->loss) || !std::isfinite(results->grad_norm);
  float* norms = step.at<float>(a.parameter_norms);
  for (int i = 0; i < 6; ++i) norms[i] = 0.5f * static_cast<float>(i);
  if (results->skipped) return;
  for (const Chunk* chunk = step.at<Chunk>(a.chunks); chunk < step.at<Chunk>(a.chunks) + info().chunk_count; ++chunk)
    for (std::int64_t i = chunk->offset; i < chunk->offset + chunk->length; ++i) {
      const float gradient = results->clip_scale * g[i];
      m[i] = s.beta1 * m[i] + (1 - s.beta1) * gradient;
      v[i] = s.beta2 * v[i] + (1 - s.beta2) * gradient * gradient;
      if (chunk->decay) p[i] -= s.lr * s.weight_decay * p[i];
      p[i] -= s.lr / s.bias_correction1 * m[i] / (std::sqrt(v[i] / s.bias_correction2) + s.eps);
    }
}

void evaluate(Step& step, bool first) {
  const ArenaLayout& a = info().arena;
  double loss = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(info().sequence_length * info().micro_batch); ++i)
    loss += position(step, step.at<int>(a.tokens)[i], step.at<int>(a.targets)[i],
                     step.at<StepScalars>(a.scalars)->loss_scale, nullptr);
  add_loss(step, first, loss);
}

void next_logits(Step& step) {
  const int* positions = step.at<int>(info().arena.positions);
  for (std::int64_t row = 0; row < info().micro_batch; ++row) {
    const int token = step.at<int>(info().arena.tokens)[positions[row]];
    std::memcpy(step.at<float>(info().arena.sample_logits) + row * kPitch,
                step.at<float>(info().arena.masters) + token * kPitch, kPitch * sizeof(float));
  }
}

}  // namespace

std::string spec_yaml() {
  return "name: fake\n"
         "model:\n  vocab_size: 12\n  hidden_size: 12\n  num_hidden_layers: 1\n  num_attention_heads: 3\n  "
         "rope_theta: " +
         std::to_string(setting("FAKE_ROPE_THETA", 10000)) +
         "\nprecision:\n  compute: fp32\n"
         "batch:\n  sequence_length: " +
         std::to_string(length()) + "\n  micro_batch: " + std::to_string(micro_batch_size()) +
         "\n  tokens: 16\n"
         "memory:\n  budget: 1GiB\n"
         "optimizer:\n  lr: 0.05\n  eps: 1e-08\n"
         "schedule:\n  kind: cosine\n  steps: 20\n  warmup_steps: 2\n"
         "data:\n  train:\n    - path: train-*.bin\n  validation:\n    - path: val.bin\n  seed: 7\n"
         "evaluation:\n  every: 5\n  sequences: 3\n"
         "sampling:\n  every: 5\n  prompts: [\"1 2 3\", \"4\", \"5 6 7 8 9\"]\n  tokens: 6\n"
         "checkpoint:\n  every: 5\n  keep_last: 100\n"
         "metrics:\n  every: 1\n  per_parameter: true\n"
         "target:\n  kind: cpu\n  arch: [x86-64]\n"
         "seed: 42\n";
}

const Program& program() {
  static const Program table = {info(),      create,         destroy,  initialise, refresh_copies,
                                micro_batch, optimizer_step, evaluate, next_logits};
  return table;
}

}  // namespace fake
}  // namespace llmc

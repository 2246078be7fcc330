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

#include "step/random.h"

namespace llmc {

struct Step {
  std::byte* arena;
  int optimizer_steps = 0;

  /// The `index`-th buffer with this use.
  template <typename T>
  T* at(Use use, int index = 0);
};

namespace fake {
namespace {

constexpr std::int64_t kElements = kVocab * kPitch + kPitch;  // the table, and a vector without a gradient

constexpr ParameterInfo kParameters[] = {
    {"model.embed_tokens.weight", 0, kVocab, kVocab, kPitch, true, 0, 0.5f, 0, 1},
    {"model.norm.weight", kVocab* kPitch, 1, kVocab, kVocab, false, 1, 0, 1, 2},
};
constexpr double kFrequencies[] = {1.0, 0.01};

int setting(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text ? std::atoi(text) : otherwise;
}

int length() { return setting("FAKE_LENGTH", kLength); }
int micro_batch_size() { return setting("FAKE_MICRO_BATCH", kMicroBatch); }

constexpr ParameterGroup kGroups[] = {{"matrices", ParameterRole::matrices}, {"others", ParameterRole::vectors}};
constexpr std::int64_t kChunks = kVocab * kPitch / 64 + 1, kParameterCount = std::size(kParameters);

/// Buffers that a plan would list for the arena, one after the other.
std::vector<Buffer> make_buffers() {
  const std::int64_t tokens = length() * micro_batch_size();
  std::vector<Buffer> buffers;
  std::size_t end = 0;
  const auto take = [&](const char* name, DType dtype, std::int64_t elements, Use use) {
    buffers.push_back({name, dtype, elements, use, end});
    end += (buffers.back().bytes() + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
  };
  take("masters", DType::f32, kElements, Use::masters);
  take("gradients", DType::f32, kElements, Use::gradients);
  take("scalars", DType::byte, sizeof(StepScalars), Use::scalars);
  take("adamw_scalars", DType::byte, std::size(kGroups) * sizeof(AdamwScalars), Use::optimizer_scalars);
  take("group_scalars", DType::byte, 2 * sizeof(GroupScalars), Use::group_scalars);
  take("tokens", DType::i32, tokens, Use::tokens);
  take("targets", DType::i32, tokens, Use::targets);
  take("embedding_order", DType::i32, tokens, Use::embedding_order);
  take("run_begin", DType::i32, tokens + 1, Use::run_begin);
  take("run_token", DType::i32, tokens, Use::run_token);
  take("run_count", DType::i32, 1, Use::run_count);
  take("positions", DType::i32, micro_batch_size(), Use::positions);
  take("rope_table", DType::f32, length() * 4, Use::rope_table);
  take("chunks", DType::byte, kChunks * sizeof(Chunk), Use::chunks);
  take("first_chunk", DType::i32, kParameterCount + 1, Use::first_chunk);
  take("init_rules", DType::byte, kParameterCount * sizeof(InitRule), Use::init_rules);
  take("results", DType::byte, sizeof(StepResults), Use::results);
  take("sample_logits", DType::f32, micro_batch_size() * kPitch, Use::sample_logits);
  take("tensor_norms", DType::f32, 3 * kParameterCount, Use::parameter_norms);
  take("exp_avg", DType::f32, kElements, Use::state);
  take("exp_avg_sq", DType::f32, kElements, Use::state);
  return buffers;
}

const std::vector<Buffer>& buffers() {
  static const std::vector<Buffer> list = make_buffers();
  return list;
}

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
    i.groups = kGroups;
    i.chunk_elements = 64;
    i.arena_bytes = buffers().back().offset + buffer_space(DType::f32, kElements);
    i.buffers = buffers();
    static constexpr Bucket kBuckets[] = {{0, kElements}};
    i.buckets = kBuckets;
    i.shard = Shard::optimizer;
    return i;
  }();
  return table;
}

}  // namespace
}  // namespace fake

template <typename T>
T* Step::at(Use use, int index) {
  for (const Buffer& buffer : fake::buffers())
    if (buffer.use == use && index-- == 0) return reinterpret_cast<T*>(arena + buffer.offset);
  return nullptr;
}

namespace fake {
namespace {

Step* create(Device&, Communicator&, const Shares&, std::byte* arena, std::span<const std::size_t>) {
  return new Step{arena};
}
void destroy(Step* step) { delete step; }

void initialise(Step& step, std::uint64_t seed) {
  const InitRule* rules = step.at<InitRule>(Use::init_rules);
  float* masters = step.at<float>(Use::masters);
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
void gather_weights(Step&) {}

/// Adds the results of one position, times `scale`, and its gradient to the table's row if `gradients` is not null.
void position(Step& step, int token, int target, float scale, float* gradients, StepResults& results) {
  if (target < 0) return;
  const float* row = step.at<float>(Use::masters) + token * kPitch;
  double sum = 0, weighted = 0;
  for (int c = 0; c < kVocab; ++c) {
    sum += std::exp(static_cast<double>(row[c]));
    weighted += std::exp(static_cast<double>(row[c])) * row[c];
  }
  if (gradients)
    for (int c = 0; c < kVocab; ++c)
      gradients[token * kPitch + c] +=
          scale * static_cast<float>(std::exp(static_cast<double>(row[c])) / sum - (c == target));
  results.loss += scale * (std::log(sum) - row[target]);
  results.top1 += row[target] >= *std::max_element(row, row + kVocab) ? scale : 0;
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

/// Processes runs of equal tokens, as a real embedding's backward does, so that every index array is used.
void micro_batch(Step& step, bool first, bool) {
  float* gradients = step.at<float>(Use::gradients);
  if (first) std::fill_n(gradients, kElements, 0.0f);
  const float scale = step.at<StepScalars>(Use::scalars)->loss_scale;
  StepResults& results = begin(step, first);
  for (int run = 0; run < *step.at<int>(Use::run_count); ++run)
    for (int p = step.at<int>(Use::run_begin)[run]; p < step.at<int>(Use::run_begin)[run + 1]; ++p) {
      const int at = step.at<int>(Use::embedding_order)[p];
      const int token = step.at<int>(Use::tokens)[at];
      if (token != step.at<int>(Use::run_token)[run]) results.loss = std::numeric_limits<double>::quiet_NaN();
      position(step, token, step.at<int>(Use::targets)[at], scale, gradients, results);
    }
}

bool listed(const char* list, int number) {
  std::stringstream text(list ? list : "");
  for (std::string word; std::getline(text, word, ',');)
    if (std::stoi(word) == number) return true;
  return false;
}

void optimizer_step(Step& step) {
  if (const char* wait = std::getenv("FAKE_STEP_MS"))
    std::this_thread::sleep_for(std::chrono::milliseconds(std::atoi(wait)));
  const StepScalars s = *step.at<StepScalars>(Use::scalars);
  const AdamwScalars adamw = *step.at<AdamwScalars>(Use::optimizer_scalars);
  StepResults* results = step.at<StepResults>(Use::results);
  const int number = ++step.optimizer_steps;
  if (listed(std::getenv("FAKE_GATES"), number)) {
    std::ofstream("at-" + std::to_string(number)).close();
    while (!std::filesystem::exists("go-" + std::to_string(number)))
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (listed(std::getenv("FAKE_SKIP"), number)) results->loss = std::numeric_limits<double>::quiet_NaN();
  float *p = step.at<float>(Use::masters), *g = step.at<float>(Use::gradients), *m = step.at<float>(Use::state),
        *v = step.at<float>(Use::state, 1);
  double squares = 0;
  for (std::int64_t i = 0; i < kElements; ++i) squares += static_cast<double>(g[i]) * g[i];
  results->grad_norm = static_cast<float>(std::sqrt(squares));
  results->clip_scale = s.clip_norm > 0 ? std::min(1.0f, s.clip_norm / results->grad_norm) : 1.0f;
  if (listed(std::getenv("FAKE_SPIKE"), number)) results->loss += 5;
  if (listed(std::getenv("FAKE_STEEP"), number)) results->grad_norm += 50;
  results->skipped = !std::isfinite(results->loss) || !std::isfinite(results->grad_norm) ? kNotFinite
                     : results->loss > s.loss_limit                                      ? kLossAbove
                     : results->grad_norm > s.grad_norm_limit                            ? kGradNormAbove
                                                                                         : kApplied;
  results->updates += results->skipped == kApplied;
  float* norms = step.at<float>(Use::parameter_norms);
  for (int i = 0; i < 6; ++i) norms[i] = 0.5f * static_cast<float>(i);
  if (results->skipped) return;
  const bool unknown = results->updates - adamw.updates > 1;
  for (const Chunk* chunk = step.at<Chunk>(Use::chunks); chunk < step.at<Chunk>(Use::chunks) + kChunks; ++chunk)
    for (std::int64_t i = chunk->offset; i < chunk->offset + chunk->length; ++i) {
      const float gradient = results->clip_scale * g[i];
      m[i] = adamw.beta1 * m[i] + (1 - adamw.beta1) * gradient;
      v[i] = adamw.beta2 * v[i] + (1 - adamw.beta2) * gradient * gradient;
      const GroupScalars& group = step.at<GroupScalars>(Use::group_scalars)[chunk->group];
      p[i] -= group.lr * group.weight_decay * p[i];
      p[i] -= group.lr / adamw.bias_correction1[unknown] * m[i] /
              (std::sqrt(v[i] / adamw.bias_correction2[unknown]) + adamw.eps);
    }
}

void evaluate(Step& step, bool first) {
  StepResults& results = begin(step, first);
  for (std::size_t i = 0; i < static_cast<std::size_t>(info().sequence_length * info().micro_batch); ++i)
    position(step, step.at<int>(Use::tokens)[i], step.at<int>(Use::targets)[i],
             step.at<StepScalars>(Use::scalars)->loss_scale, nullptr, results);
}

void next_logits(Step& step) {
  const int* positions = step.at<int>(Use::positions);
  for (std::int64_t row = 0; row < info().micro_batch; ++row) {
    const int token = step.at<int>(Use::tokens)[positions[row]];
    std::memcpy(step.at<float>(Use::sample_logits) + row * kPitch, step.at<float>(Use::masters) + token * kPitch,
                kPitch * sizeof(float));
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
  static const Program table = {info(),         create,      destroy,        initialise, refresh_copies,
                                gather_weights, micro_batch, optimizer_step, evaluate,   next_logits};
  return table;
}

}  // namespace fake
}  // namespace llmc

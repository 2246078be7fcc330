#include "train/sampling.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "error.h"
#include "spec/scalars.h"
#include "step/random.h"
#include "text/printable.h"
#include "text/utf8.h"

namespace llmc {
namespace {

constexpr std::uint64_t kPurpose = 0x73616d706c696e67;  // "sampling": keeps these draws apart from those of the weights

double draw_for(std::uint64_t seed, std::int64_t step, std::size_t prompt, std::int64_t token) {
  const std::uint64_t key = seed ^ kPurpose, number = static_cast<std::uint64_t>(step);
  return uniform(philox({static_cast<std::uint32_t>(token), static_cast<std::uint32_t>(prompt),
                         static_cast<std::uint32_t>(number), static_cast<std::uint32_t>(number >> 32)},
                        {static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32)}));
}

/// `tokenizer`: one that only decodes; null if there is none.
std::vector<std::int32_t> parse_ids(const std::string& prompt, const Tokenizer* tokenizer) {
  if (auto ids = spec::parse_token_ids(prompt)) return *std::move(ids);
  if (tokenizer)
    throw Failure(
        Exit::spec,
        fmt::format("llmc can decode with data.tokenizer but not encode: {}. So the prompt '{}' must be token "
                    "ids such as \"17 4 256\". Encode it with the tokenizer's own library",
                    tokenizer->why_not_encodes(), printable(prompt)));
  throw Failure(Exit::spec, fmt::format("without data.tokenizer the prompt '{}' must be token ids such as \"17 4 "
                                        "256\". Give data.tokenizer, or sampling.every=0",
                                        printable(prompt)));
}

/// Marks the tokens outside the nucleus, the fewest most likely tokens whose weights sum to `enough`.
template <class Weight>
std::vector<bool> outside_nucleus(std::span<const float> logits, Weight weight, double enough) {
  std::vector<std::int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto value = [&](std::int32_t i) {
    const float logit = logits[static_cast<std::size_t>(i)];
    return std::isfinite(logit) ? logit : -std::numeric_limits<float>::infinity();
  };
  std::ranges::stable_sort(order, [&](std::int32_t a, std::int32_t b) { return value(a) > value(b); });
  std::vector<bool> outside(logits.size(), true);
  double reached = 0;
  for (const std::int32_t i : order) {
    outside[static_cast<std::size_t>(i)] = false;
    reached += weight(logits[static_cast<std::size_t>(i)]);
    if (reached >= enough) break;
  }
  return outside;
}

}  // namespace

std::int32_t choose_token(std::span<const float> logits, double temperature, double top_p, double draw) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < logits.size(); ++i)
    if (std::isfinite(logits[i]) && (logits[i] > logits[best] || !std::isfinite(logits[best]))) best = i;
  if (temperature == 0 || !std::isfinite(logits[best])) return static_cast<std::int32_t>(best);
  const auto weight = [&](float logit) {
    return std::isfinite(logit) ? std::exp((static_cast<double>(logit) - logits[best]) / temperature) : 0.0;
  };
  double total = 0;
  for (const float logit : logits) total += weight(logit);
  const std::vector<bool> left_out = top_p < 1 ? outside_nucleus(logits, weight, top_p * total) : std::vector<bool>();
  const auto drawable = [&](std::size_t i) { return left_out.empty() || !left_out[i]; };
  if (!left_out.empty()) {
    total = 0;
    for (std::size_t i = 0; i < logits.size(); ++i)
      if (drawable(i)) total += weight(logits[i]);
  }
  double left = draw * total;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (drawable(i)) left -= weight(logits[i]);
    if (left < 0) return static_cast<std::int32_t>(i);
  }
  return static_cast<std::int32_t>(best);  // reached only through rounding of the sum
}

Sampling::Sampling(const spec::Sampling& values, const Tokenizer* tokenizer, std::int64_t separator,
                   const ProgramInfo& info, std::uint64_t seed)
    : values_(values),
      tokenizer_(tokenizer),
      separator_(separator < 0 && tokenizer ? tokenizer->separator_id() : separator),
      seed_(seed) {
  for (const std::string& prompt : values_.prompts) {
    std::vector<std::int32_t> ids =
        tokenizer_ && tokenizer_->encodes() ? tokenizer_->encode(prompt) : parse_ids(prompt, tokenizer_);
    if (ids.empty()) ids.push_back(static_cast<std::int32_t>(std::max<std::int64_t>(separator_, 0)));
    for (const std::int32_t id : ids)
      if (id >= info.vocab_size)
        throw Failure(Exit::data, fmt::format("the prompt '{}' has token {}, but the model's token ids are below {}. "
                                              "Use the tokenizer of the training data",
                                              printable(prompt), id, info.vocab_size));
    prompts_.push_back(std::move(ids));
  }
}

bool Sampling::go_on(Session& session, std::int64_t step, std::size_t first, std::span<std::vector<std::int32_t>> texts,
                     const std::function<bool()>& interrupted,
                     const std::function<void(std::size_t, std::int32_t)>& drawn) const {
  const ProgramInfo& info = session.info();
  const auto rows = static_cast<std::size_t>(info.micro_batch), length = static_cast<std::size_t>(info.sequence_length);
  std::vector<std::int32_t> tokens(rows * length), positions(rows);
  std::vector<float> logits;
  std::vector<bool> ended(texts.size());
  for (std::int64_t token = 0; token < values_.tokens; ++token) {
    if (std::ranges::all_of(ended, [](bool e) { return e; })) break;
    if (interrupted()) return false;
    for (std::size_t row = 0; row < rows; ++row) {
      positions[row] = static_cast<std::int32_t>(row * length);
      if (row >= texts.size()) continue;
      const std::size_t count = std::min(texts[row].size(), length);
      std::copy(texts[row].end() - static_cast<std::ptrdiff_t>(count), texts[row].end(),
                tokens.begin() + static_cast<std::ptrdiff_t>(row * length));
      positions[row] += static_cast<std::int32_t>(count) - 1;
    }
    session.next_logits(tokens, positions, logits);
    for (std::size_t row = 0; row < texts.size(); ++row) {
      if (ended[row]) continue;
      const std::span<const float> of_row(logits.data() + row * static_cast<std::size_t>(info.vocab_pitch),
                                          static_cast<std::size_t>(info.vocab_size));
      const std::int32_t next =
          choose_token(of_row, values_.temperature, values_.top_p, draw_for(seed_, step, first + row, token));
      ended[row] = next == separator_;
      if (ended[row]) continue;
      texts[row].push_back(next);
      drawn(row, next);
    }
  }
  return true;
}

std::optional<std::vector<Sample>> Sampling::run(Session& session, std::int64_t step,
                                                 const std::function<bool()>& interrupted) const {
  std::vector<std::vector<std::int32_t>> texts = prompts_;
  const auto rows = static_cast<std::size_t>(session.info().micro_batch);
  for (std::size_t first = 0; first < texts.size(); first += rows)
    if (!go_on(session, step, first, std::span(texts).subspan(first, std::min(rows, texts.size() - first)), interrupted,
               [](std::size_t, std::int32_t) {}))
      return std::nullopt;
  std::vector<Sample> samples;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    std::vector<std::int32_t> written(texts[i].begin() + static_cast<std::ptrdiff_t>(prompts_[i].size()),
                                      texts[i].end());
    samples.push_back({prompt_text(i), text_of(written)});
  }
  return samples;
}

void Sampling::stream(Session& session, std::int64_t step, std::size_t prompt,
                      const std::function<void(const std::string&)>& written) const {
  std::vector<std::vector<std::int32_t>> texts = {prompts_.at(prompt)};
  std::string pending;  // incomplete character at the end
  bool began = false;
  go_on(
      session, step, prompt, texts, [] { return false; },
      [&](std::size_t, std::int32_t id) {
        pending += (began && !tokenizer_ ? " " : "") + text_of({&id, 1});
        began = true;
        const std::size_t whole = pending.size() - utf8_unfinished(pending);
        if (whole > 0) written(pending.substr(0, whole));
        pending.erase(0, whole);
      });
  if (!pending.empty()) written(pending);
}

std::string Sampling::prompt_text(std::size_t prompt) const {
  return tokenizer_ && !tokenizer_->encodes() ? text_of(prompts_.at(prompt)) : values_.prompts.at(prompt);
}

std::string Sampling::text_of(std::span<const std::int32_t> ids) const {
  if (!tokenizer_) return fmt::format("{}", fmt::join(ids, " "));
  std::vector<std::int32_t> known(ids.begin(), ids.end());
  std::erase_if(known, [&](std::int32_t id) { return id >= tokenizer_->vocab_size(); });
  return tokenizer_->decode(known);
}

std::string Sampling::shown(const Sample& sample) const {
  return printable_text(sample.prompt + (tokenizer_ ? "" : " ") + sample.text);
}

}  // namespace llmc

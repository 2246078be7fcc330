#include "train/sampling.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "data/utf8.h"
#include "error.h"
#include "spec/scalars.h"
#include "train/random.h"

namespace llmc {
namespace {

constexpr std::uint64_t kPurpose = 0x73616d706c696e67;  // "sampling": keeps these draws apart from those of the weights

double draw_for(std::uint64_t seed, std::int64_t step, std::size_t prompt, std::int64_t token) {
  const std::uint64_t key = seed ^ kPurpose, number = static_cast<std::uint64_t>(step);
  return uniform(philox({static_cast<std::uint32_t>(token), static_cast<std::uint32_t>(prompt),
                         static_cast<std::uint32_t>(number), static_cast<std::uint32_t>(number >> 32)},
                        {static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32)}));
}

std::vector<std::int32_t> parse_ids(const std::string& prompt) {
  if (auto ids = spec::parse_token_ids(prompt)) return *std::move(ids);
  throw Failure(Exit::spec,
                fmt::format("without data.tokenizer the prompt '{}' must be token ids such as \"17 4 256\"; "
                            "give data.tokenizer, or sampling.every=0",
                            printable(prompt)));
}

std::string id_text(std::span<const std::int32_t> ids) { return fmt::format("{}", fmt::join(ids, " ")); }

}  // namespace

std::int32_t choose_token(std::span<const float> logits, double temperature, double draw) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < logits.size(); ++i)
    if (std::isfinite(logits[i]) && (logits[i] > logits[best] || !std::isfinite(logits[best]))) best = i;
  if (temperature == 0 || !std::isfinite(logits[best])) return static_cast<std::int32_t>(best);
  const auto weight = [&](float logit) {
    return std::isfinite(logit) ? std::exp((static_cast<double>(logit) - logits[best]) / temperature) : 0.0;
  };
  double total = 0;
  for (const float logit : logits) total += weight(logit);
  double left = draw * total;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    left -= weight(logits[i]);
    if (left < 0) return static_cast<std::int32_t>(i);
  }
  return static_cast<std::int32_t>(best);  // only by rounding of the sum
}

Sampling::Sampling(const spec::Sampling& values, const Tokenizer* tokenizer, const ProgramInfo& info,
                   std::uint64_t seed)
    : values_(values), tokenizer_(tokenizer), seed_(seed) {
  for (const std::string& prompt : values_.prompts) {
    std::vector<std::int32_t> ids = tokenizer_ ? tokenizer_->encode(prompt) : parse_ids(prompt);
    if (ids.empty()) ids.push_back(tokenizer_ ? std::max(tokenizer_->separator_id(), 0) : 0);
    for (const std::int32_t id : ids)
      if (id >= info.vocab_size)
        throw Failure(Exit::data,
                      fmt::format("the prompt '{}' has token {}, and the model's vocabulary ends before {}; use the "
                                  "tokenizer of the training data",
                                  printable(prompt), id, info.vocab_size));
    prompts_.push_back(std::move(ids));
  }
}

bool Sampling::go_on(Session& session, std::int64_t step, std::size_t first, std::span<std::vector<std::int32_t>> texts,
                     const std::function<bool()>& interrupted) const {
  const ProgramInfo& info = session.info();
  const auto rows = static_cast<std::size_t>(info.micro_batch), length = static_cast<std::size_t>(info.sequence_length);
  const std::int32_t separator = tokenizer_ ? tokenizer_->separator_id() : -1;
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
      const std::int32_t next = choose_token(of_row, values_.temperature, draw_for(seed_, step, first + row, token));
      ended[row] = next == separator;
      if (!ended[row]) texts[row].push_back(next);
    }
  }
  return true;
}

std::optional<std::vector<Sample>> Sampling::run(Session& session, std::int64_t step,
                                                 const std::function<bool()>& interrupted) const {
  std::vector<std::vector<std::int32_t>> texts = prompts_;
  const auto rows = static_cast<std::size_t>(session.info().micro_batch);
  for (std::size_t first = 0; first < texts.size(); first += rows)
    if (!go_on(session, step, first, std::span(texts).subspan(first, std::min(rows, texts.size() - first)),
               interrupted))
      return std::nullopt;
  std::vector<Sample> samples;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    std::vector<std::int32_t> written(texts[i].begin() + static_cast<std::ptrdiff_t>(prompts_[i].size()),
                                      texts[i].end());
    if (tokenizer_) std::erase_if(written, [&](std::int32_t id) { return id >= tokenizer_->vocab_size(); });
    samples.push_back({values_.prompts[i], tokenizer_ ? tokenizer_->decode(written) : id_text(written)});
  }
  return samples;
}

std::string Sampling::shown(const Sample& sample) const {
  return printable(sample.prompt + (tokenizer_ ? "" : " ") + sample.text);
}

std::string printable(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = utf8_length(std::string_view(text).substr(i));
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool control = (byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7f ||
                         (length == 2 && byte == 0xc2 && static_cast<unsigned char>(text[i + 1]) < 0xa0);
    const std::size_t taken = std::max<std::size_t>(length, 1);
    for (std::size_t k = i; k < i + taken; ++k)
      if (length == 0 || control)
        out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[k]));
      else
        out += text[k];
    i += taken;
  }
  return out;
}

}  // namespace llmc

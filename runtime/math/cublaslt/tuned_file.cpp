#include "math/cublaslt/tuned_file.h"

#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>

#include "error.h"
#include "files/disk.h"
#include "math/cublaslt/product.h"
#include "math/cudnn/backward_choice.h"
#include "math/gemm_text.h"
#include "text/json_problem.h"

namespace llmc {
namespace {

using Json = nlohmann::ordered_json;
constexpr char kFormat[] = "llmc-tuned-4";
constexpr char kDigits[] = "0123456789abcdef";

std::string hex(const cublasLtMatmulAlgo_t& algorithm) {
  std::string text;
  for (std::size_t i = 0; i < sizeof algorithm; ++i) {
    std::uint8_t byte;
    std::memcpy(&byte, reinterpret_cast<const char*>(&algorithm) + i, 1);
    text += kDigits[byte / 16];
    text += kDigits[byte % 16];
  }
  return text;
}

cublasLtMatmulAlgo_t from_hex(const std::string& text) {
  cublasLtMatmulAlgo_t algorithm;
  if (text.size() != 2 * sizeof algorithm || text.find_first_not_of(kDigits) != std::string::npos)
    throw std::invalid_argument("an algorithm is not " + std::to_string(2 * sizeof algorithm) + " hexadecimal digits");
  for (std::size_t i = 0; i < sizeof algorithm; ++i) {
    const auto byte = static_cast<std::uint8_t>(std::stoi(text.substr(2 * i, 2), nullptr, 16));
    std::memcpy(reinterpret_cast<char*>(&algorithm) + i, &byte, 1);
  }
  return algorithm;
}

constexpr const char* kBackward[] = {"cudnn", "portable"};  // by AttentionBy

AttentionBy backward_by(const std::string& text) {
  for (const AttentionBy by : {AttentionBy::cudnn, AttentionBy::portable})
    if (text == kBackward[static_cast<int>(by)]) return by;
  throw std::invalid_argument("an attention's backward pass is neither cudnn nor portable");
}

std::string mebibytes(std::size_t bytes) { return std::to_string((bytes + (1u << 20) - 1) >> 20) + " MiB"; }

std::optional<CardState> card_of(const Json& entry) {
  if (!entry.contains("sm_mhz")) return {};
  return CardState{entry.at("sm_mhz"), entry.at("watts"), entry.at("throttled")};
}

void add_card(Json& entry, const std::optional<CardState>& card) {
  if (!card) return;
  entry["sm_mhz"] = card->sm_mhz;
  entry["watts"] = card->watts;
  entry["throttled"] = card->throttled;
}

[[noreturn]] void refuse(const std::string& name, const std::string& what) {
  throw Failure(Exit::toolchain, "'" + name + "' " + what + ". Remove it, and run trainer tune");
}

}  // namespace

TunedFile TunedFile::read(const std::filesystem::path& file) {
  const std::optional<std::string> text = disk::text(file);
  if (!text && !disk::exists(file, Exit::toolchain)) return {};
  if (!text) refuse(file.string(), "cannot be read");
  return parse(*text, file.string());
}

TunedFile TunedFile::parse(const std::string& text, const std::string& name) try {
  TunedFile file;
  file.name_ = name;
  const Json document = Json::parse(text);
  if (document.at("format") != kFormat) throw std::invalid_argument(std::string("its format is not ") + kFormat);
  for (const Json& entry : document.at("entries")) {
    const Key key = {entry.at("device"), entry.at("library"), entry.at("product")};
    file.entries_[key] = {from_hex(entry.at("algorithm")),
                          entry.at("workspace"),
                          entry.at("candidates"),
                          entry.at("first_ms"),
                          entry.at("best_ms"),
                          card_of(entry)};
  }
  for (const Json& entry : document.at("attention")) {
    const Key key = {entry.at("device"), entry.at("library"), entry.at("shape")};
    file.attention_[key] = {backward_by(entry.at("backward")), entry.at("cudnn_ms"), entry.at("portable_ms"),
                            card_of(entry)};
  }
  return file;
} catch (const Json::exception& error) {
  refuse(name, std::string("does not have the form that trainer tune writes (") + json_problem(error) + ")");
} catch (const std::invalid_argument& error) {
  refuse(name, std::string("does not have the form that trainer tune writes: ") + error.what());
}

TunedFile::Key TunedFile::key(const MathLibrary::Impl& library, const LtProduct& product) {
  return {library.device_of_products(), cublasLtGetVersion(), tuned_key(product.shape())};
}

std::optional<cublasLtMatmulAlgo_t> TunedFile::find(const MathLibrary::Impl& library, const LtProduct& product) const {
  const auto entry = entries_.find(key(library, product));
  if (entry == entries_.end()) return {};
  const auto needed = product.workspace_of(entry->second.algorithm);
  if (!needed)
    refuse(name_, "names an algorithm that " + cublaslt_version() + " does not run for " + llmc::text(product.shape()));
  if (*needed > library.workspace_bytes)
    refuse(name_, "names an algorithm that needs " + mebibytes(*needed) + " of workspace for " +
                      llmc::text(product.shape()) + ", but this trainer was planned with " +
                      mebibytes(library.workspace_bytes));
  return entry->second.algorithm;
}

void TunedFile::put(const MathLibrary::Impl& library, const LtProduct& product, const Entry& entry) {
  entries_[key(library, product)] = entry;
}

TunedFile::Key TunedFile::key(const MathLibrary::Impl& library, const AttentionShape& shape) {
  return {library.device, cudnn_version(), attention_key(shape)};
}

std::optional<TunedFile::Backward> TunedFile::find(const MathLibrary::Impl& library,
                                                   const AttentionShape& shape) const {
  const auto entry = attention_.find(key(library, shape));
  if (entry == attention_.end()) return {};
  return entry->second;
}

void TunedFile::put(const MathLibrary::Impl& library, const AttentionShape& shape, const Backward& backward) {
  attention_[key(library, shape)] = backward;
}

std::string TunedFile::text() const {
  Json entries = Json::array();
  for (const auto& [key, entry] : entries_) {
    entries.push_back({{"device", key.device},
                       {"library", key.library},
                       {"product", key.shape},
                       {"algorithm", hex(entry.algorithm)},
                       {"workspace", entry.workspace_bytes},
                       {"candidates", entry.candidates},
                       {"first_ms", entry.first_ms},
                       {"best_ms", entry.best_ms}});
    add_card(entries.back(), entry.card);
  }
  Json attention = Json::array();
  for (const auto& [key, backward] : attention_) {
    attention.push_back({{"device", key.device},
                         {"library", key.library},
                         {"shape", key.shape},
                         {"backward", kBackward[static_cast<int>(backward.by)]},
                         {"cudnn_ms", backward.cudnn_ms},
                         {"portable_ms", backward.portable_ms}});
    add_card(attention.back(), backward.card);
  }
  return Json{{"format", kFormat}, {"entries", entries}, {"attention", attention}}.dump(1) + "\n";
}

}  // namespace llmc

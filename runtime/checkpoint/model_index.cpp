#include "checkpoint/model_index.h"

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <vector>

#include "checkpoint/safetensors_header.h"

namespace llmc {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMaxTensors = 1u << 20, kMaxLevels = 8;

/// Collects `weight_map` from nlohmann's SAX events; its DOM silently accepts duplicate keys.
class Events : public nlohmann::json_sax<Json> {
 public:
  std::map<std::string, std::string> files;
  std::string problem;
  bool found = false;  // whether there is a weight_map

  bool null() override { return other(); }
  bool boolean(bool) override { return other(); }
  bool number_integer(number_integer_t) override { return other(); }
  bool number_unsigned(number_unsigned_t) override { return other(); }
  bool number_float(number_float_t, const string_t&) override { return other(); }
  bool binary(binary_t&) override { return fail("it contains binary data"); }
  bool string(string_t& value) override {
    if (!in_map()) return other();
    if (value.empty() || value == "." || value == ".." || value.find('/') != std::string::npos ||
        value.find('\0') != std::string::npos)
      return fail("weight_map names a file in another folder");
    if (value.size() > safetensors::kMaxNameBytes) return fail("weight_map has a name that is too long");
    files.emplace(tensor_, std::move(value));
    return true;
  }
  bool start_object(std::size_t) override {
    if (levels_.empty() || at_top_map()) return open();
    return in_map() ? fail("a tensor's file in weight_map is not text") : open();
  }
  bool start_array(std::size_t) override { return other() && open(); }
  bool key(string_t& name) override {
    if (name.size() > safetensors::kMaxNameBytes) return fail("a key is too long");
    if (++keys_ > kMaxTensors) return fail("it has more than 2^20 keys");
    if (!levels_.back().insert(name).second) return fail("it has a key twice");
    if (levels_.size() == 1) top_ = name;
    if (levels_.size() == 1 && name == "weight_map") found = true;
    tensor_ = std::move(name);
    return true;
  }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    return fail("it is not valid JSON at byte " + std::to_string(position));
  }

 private:
  /// Between weight_map's key and the opening of its value.
  bool at_top_map() const { return levels_.size() == 1 && top_ == "weight_map"; }
  /// Directly inside of weight_map.
  bool in_map() const { return levels_.size() == 2 && top_ == "weight_map"; }
  /// A value that is neither a tensor's file nor an object.
  bool other() {
    if (levels_.empty()) return fail("it is not an object");
    if (at_top_map()) return fail("weight_map is not an object");
    if (in_map()) return fail("a tensor's file in weight_map is not text");
    return true;
  }
  bool open() {
    if (levels_.size() >= kMaxLevels) return fail("it is nested too deeply");
    levels_.emplace_back();
    return true;
  }
  bool close() {
    levels_.pop_back();
    return true;
  }
  bool fail(std::string what) {
    problem = std::move(what);
    return false;
  }

  std::vector<std::set<std::string>> levels_;  // keys of the open objects; empty for arrays
  std::string top_, tensor_;                   // last key of the outermost object, and of any
  std::size_t keys_ = 0;
};

}  // namespace

std::map<std::string, std::string> parse_model_index(std::string_view json) {
  Events events;
  if (!Json::sax_parse(json, &events)) throw std::invalid_argument(events.problem);
  if (!events.found) throw std::invalid_argument("it has no weight_map");
  if (events.files.empty()) throw std::invalid_argument("its weight_map names no tensor");
  return std::move(events.files);
}

}  // namespace llmc

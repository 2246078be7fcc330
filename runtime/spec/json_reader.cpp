#include "spec/json_reader.h"

#include <fmt/format.h>

#include <vector>

#include "error.h"
#include "files/git_lfs.h"
#include "spec/node.h"
#include "spec/source.h"

namespace llmc::spec {
namespace {

using Json = nlohmann::ordered_json;

/// Builds the value from nlohmann's SAX events; its own DOM silently accepts duplicate keys.
class Builder : public nlohmann::json_sax<Json> {
 public:
  Json root;
  std::string problem;

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t&) override { return add(value); }
  bool string(string_t& value) override { return add(value); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    if (open_.back()->contains(name)) {
      problem = fmt::format("the key {} is set twice", in_quotes(name));
      return false;
    }
    keys_.back() = name;
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    problem = fmt::format("this is not JSON at byte {}", position);
    return false;
  }

 private:
  Json* place(Json value) {
    if (open_.empty()) return &(root = std::move(value));
    if (open_.back()->is_array()) {
      open_.back()->push_back(std::move(value));
      return &open_.back()->back();
    }
    Json& member = (*open_.back())[keys_.back()];
    member = std::move(value);
    return &member;
  }
  bool add(Json value) {
    if (++count_ > kMaxNodes) {
      problem = fmt::format("it has more than {} values", kMaxNodes);
      return false;
    }
    place(std::move(value));
    return true;
  }
  bool open(Json empty) {
    if (++count_ > kMaxNodes || open_.size() >= static_cast<std::size_t>(kMaxDepth)) {
      problem = fmt::format("it is nested deeper than {} or has more than {} values", kMaxDepth, kMaxNodes);
      return false;
    }
    // A growing vector may move its elements, but only the last element of each open container is still written to.
    open_.push_back(place(std::move(empty)));
    keys_.emplace_back();
    return true;
  }
  bool close() {
    open_.pop_back();
    keys_.pop_back();
    return true;
  }

  std::vector<Json*> open_;
  std::vector<std::string> keys_;
  std::size_t count_ = 0;
};

}  // namespace

nlohmann::ordered_json read_json(const std::string& text, const std::string& name) {
  Builder builder;
  if (is_lfs_pointer(text)) throw Failure(Exit::spec, fmt::format("{} {}", printable(name), kIsLfsPointer));
  if (text.size() > kMaxBytes)
    builder.problem = fmt::format("it has more than {} bytes", kMaxBytes);
  else if (Json::sax_parse(text, &builder))
    return std::move(builder.root);
  throw Failure(Exit::spec, fmt::format("{} cannot be read: {}", printable(name), builder.problem));
}

}  // namespace llmc::spec

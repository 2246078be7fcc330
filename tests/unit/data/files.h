// Creates files for data tests.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "../facts.h"
#include "../folder.h"
#include "data/order/sources.h"
#include "error.h"

namespace llmc::test {

template <typename T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

/// An llm.c shard; a wrong `count` makes it damaged.
template <typename T>
std::string llmc_shard(const std::vector<T>& tokens, std::int32_t count = -1) {
  std::vector<std::int32_t> header(256, 0);
  header[0] = sizeof(T) == 2 ? 20240520 : 20240801;
  header[1] = sizeof(T) == 2 ? 1 : 7;
  header[2] = count >= 0 ? count : static_cast<std::int32_t>(tokens.size());
  return bytes_of(header) + bytes_of(tokens);
}

/// A Megatron index over sequences of these lengths (in tokens of `width` bytes), one document per sequence.
inline std::string megatron_index(std::uint8_t type, std::uint64_t width, const std::vector<std::int32_t>& lengths) {
  std::string index("MMIDIDX\0\0", 9);
  const auto put = [&](auto value) { index.append(reinterpret_cast<const char*>(&value), sizeof(value)); };
  put(std::uint64_t{1});
  put(type);
  put(std::uint64_t{lengths.size()});
  put(std::uint64_t{lengths.size() + 1});
  for (const std::int32_t length : lengths) put(length);
  std::int64_t offset = 0;
  for (const std::int32_t length : lengths) {
    put(offset);
    offset += static_cast<std::int64_t>(length) * static_cast<std::int64_t>(width);
  }
  for (std::size_t i = 0; i <= lengths.size(); ++i) put(static_cast<std::int64_t>(i));
  return index;
}

/// Message of the Failure that `f` throws; its exit code must be `code`.
inline std::string failure_of(const std::function<void()>& f, Exit code = Exit::data) {
  try {
    f();
  } catch (const Failure& failure) {
    EXPECT_EQ(static_cast<int>(failure.code()), static_cast<int>(code)) << failure.what();
    return failure.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

/// EXPECT_FAILS_WITH(open("a.bin"), "a.bin", "12 bytes"): the message of its Failure has these facts in this order.
#define EXPECT_FAILS_WITH(statement, ...) \
  EXPECT_TRUE(llmc::test::has_facts(llmc::test::failure_of([&] { (void)(statement); }), llmc::test::Facts{__VA_ARGS__}))

/// The training data of a run with one source, without a name.
inline Sources one_source(std::shared_ptr<const TokenShards> shards) {
  return {{.name = "", .shards = std::move(shards)}};
}

/// Tokens 0, 1, 2, ... modulo `vocab`.
template <typename T = std::uint16_t>
std::vector<T> counting(std::size_t n, std::size_t vocab = 60000, std::size_t first = 0) {
  std::vector<T> tokens(n);
  for (std::size_t i = 0; i < n; ++i) tokens[i] = static_cast<T>((first + i) % vocab);
  return tokens;
}

}  // namespace llmc::test

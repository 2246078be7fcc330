// Runs the fake trainer as a separate process, in a temporary folder.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "../facts.h"
#include "../folder.h"

namespace llmc::fake {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using Words = std::vector<std::string>;

inline std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// 20240520 shards of uint16 tokens below 12: sevenths of a Fibonacci-like sequence, which a model can learn.
inline void write_shard(const fs::path& path, int count, unsigned seed) {
  std::vector<std::int32_t> header(256, 0);
  header[0] = 20240520;
  header[1] = 1;
  header[2] = count;
  std::vector<std::uint16_t> tokens;
  unsigned state = seed;
  for (int i = 0; i < count; ++i) {
    state = state * 1664525 + 1013904223;
    tokens.push_back(static_cast<std::uint16_t>(state >> 30 ? (i * 5 + 1) % 12 : (state >> 20) % 12));
  }
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(header.data()), 1024);
  file.write(reinterpret_cast<const char*>(tokens.data()), 2 * count);
}

struct Result {
  int status = 0;  // exit code, or 128 + signal
  std::string out, err;
};

class Runs : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::create_directory(folder_ / "data");
    write_shard(folder_ / "data/train-0.bin", 61, 1);  // 15 + 10 samples of 4 tokens: 20 steps of 4 are 3.2 epochs
    write_shard(folder_ / "data/train-1.bin", 42, 2);
    write_shard(folder_ / "data/val.bin", 13, 3);
  }

  /// `environment`: "NAME=value". FAKE_TRAINER_OF=NAME: the trainer fake_trainer_NAME (CMakeLists.txt), otherwise
  /// fake_trainer; other names: fake_step.cpp.
  pid_t start(const Words& arguments, const Words& environment = {}) {
    const fs::path out = folder_ / "out", err = folder_ / "err";
    const pid_t child = ::fork();
    if (child != 0) return child;
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);  // as of a launcher
    if (::chdir(folder_.c_str()) != 0 || !::freopen(out.c_str(), "w", stdout) || !::freopen(err.c_str(), "w", stderr))
      ::_exit(99);
    ::setenv("XDG_CACHE_HOME", (folder_ / "cache").c_str(), 1);
    std::string trainer = FAKE_TRAINER;
    constexpr std::string_view kOf = "FAKE_TRAINER_OF=";
    for (const std::string& pair : environment)
      if (pair.starts_with(kOf))
        trainer += "_" + pair.substr(kOf.size());
      else
        ::putenv(::strdup(pair.c_str()));
    Words words = {trainer, "--base", "data", "--threads", "1"};
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    ::execv(trainer.c_str(), argv.data());
    ::_exit(98);
  }
  Result finish(pid_t child) {
    int status = 0;
    ::waitpid(child, &status, 0);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), read_file(folder_ / "out"),
            read_file(folder_ / "err")};
  }
  Result run(const Words& arguments, const Words& environment = {}) { return finish(start(arguments, environment)); }
  /// Expects exit code 0.
  Result train(const Words& arguments, const Words& environment = {}) {
    const Result result = run(arguments, environment);
    EXPECT_EQ(result.status, 0) << result.out << result.err;
    return result;
  }

  std::vector<Json> lines(const std::string& file) const {
    std::vector<Json> found;
    std::ifstream in(folder_ / file);
    for (std::string line; std::getline(in, line);) found.push_back(Json::parse(line));
    return found;
  }
  /// Ends a file as a start does that is killed while it appends a line.
  void append_torn_line(const std::string& file) const {
    const std::string line = read_file(folder_ / file).substr(0, 200);
    std::ofstream(folder_ / file, std::ios::app) << line;
  }
  bool ended(pid_t child) const {
    siginfo_t state{};
    return ::waitid(P_PID, static_cast<id_t>(child), &state, WEXITED | WNOHANG | WNOWAIT) != 0 || state.si_pid != 0;
  }
  /// Waits until the trainer is within the step named by FAKE_GATES.
  void wait_for_gate(pid_t child, int step) const {
    while (!fs::exists(folder_ / ("at-" + std::to_string(step)))) {
      ASSERT_FALSE(ended(child)) << "the trainer ended before step " << step;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  void open_gate(int step) const { std::ofstream(folder_ / ("go-" + std::to_string(step))); }
  void close_gate(int step) const {
    for (const char* name : {"at-", "go-"}) fs::remove(folder_ / (name + std::to_string(step)));
  }
  /// Content of a checkpoint's files, by name.
  std::map<std::string, std::string> checkpoint(const std::string& run, int step) const {
    char name[32];
    std::snprintf(name, sizeof name, "step-%08d", step);
    std::map<std::string, std::string> files;
    const fs::path directory = folder_ / run / "checkpoints" / name;
    if (!fs::exists(directory)) return files;
    for (const auto& entry : fs::directory_iterator(directory))
      files[entry.path().filename()] = read_file(entry.path());
    return files;
  }
  void expect_same_checkpoint(const std::string& a, const std::string& b, int step) const {
    const auto files = checkpoint(a, step);
    ASSERT_EQ(files.size(), 6u) << a << " " << step;  // model, optimizer, config, spec, state, manifest
    EXPECT_TRUE(files == checkpoint(b, step)) << a << " and " << b << " differ at step " << step;
  }

  const test::Folder files_;
  const fs::path folder_ = files_.path;
};

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace llmc::fake

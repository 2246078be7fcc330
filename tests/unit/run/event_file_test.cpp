// TensorBoard event files: bytes equal to TensorFlow's, and truncation when a run goes back.
#include "run/event_file.h"

#include <gtest/gtest.h>

#include <fstream>
#include <limits>
#include <tuple>

#include "../checkpoint/small_state.h"
#include "../facts.h"
#include "error.h"

namespace llmc {
namespace {

namespace fs = std::filesystem;

std::string hex(const std::string& bytes) {
  std::string text;
  for (const char c : bytes) {
    constexpr char kDigits[] = "0123456789abcdef";
    text += kDigits[static_cast<unsigned char>(c) >> 4];
    text += kDigits[c & 15];
  }
  return text;
}

/// Bytes written by TensorFlow.
TEST(Event, RecordsAreThoseOfTensorFlow) {
  EXPECT_EQ(hex(event_record(version_event(1.7e9))),
            "1800000000000000a37f4b220900000040fc54d9411a0d627261696e2e4576656e743a32eced8f9d");
  EXPECT_EQ(hex(event_record(scalars_event(1.7e9 + 1, 7, std::vector<Scalar>{{"train/loss", 2.5f}}))),
            "200000000000000029eda9500900004040fc54d94110072a130a110a0a747261696e2f6c6f7373150000204055c9c66f");
  const std::string digits = event_record("123456789");
  EXPECT_EQ(hex(digits.substr(digits.size() - kRecordTail)), "e5b08ac7") << "its masked CRC-32C is c78ab0e5";
  EXPECT_TRUE(record_matches("123456789", std::string_view(digits).substr(digits.size() - kRecordTail)));
}

TEST(Event, HeadsAreReadBack) {
  const std::int64_t far = std::numeric_limits<std::int64_t>::max();
  const auto head = [](const std::string& event) {
    const std::optional<EventHead> head = read_event(event);
    return head ? std::tuple(head->step, head->has_values) : std::tuple(std::int64_t{-1}, false);
  };
  EXPECT_EQ(head(version_event(1)), std::tuple(0, false));
  EXPECT_EQ(head(restart_event(1, 300)), std::tuple(300, false));
  EXPECT_EQ(head(scalars_event(1, far, std::vector<Scalar>{{"a", 1}})), std::tuple(far, true));
  const std::string text = text_event(1, 5, "samples/1", std::string(1000, 'x'));
  EXPECT_EQ(head(text), std::tuple(5, true));
  for (std::size_t size = 1; size < text.size(); ++size)
    EXPECT_TRUE(size == 9 || size == 11 || !read_event(std::string_view(text).substr(0, size))) << size;
  EXPECT_FALSE(read_event("\x0b")) << "no wire type of ours";
  EXPECT_FALSE(read_event(std::string(11, '\xff')));
}

class EventFiles : public testing::Test {
 protected:
  std::vector<fs::path> files() const {
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(folder_)) files.push_back(entry.path());
    std::ranges::sort(files);
    return files;
  }

  void train(std::int64_t from, std::int64_t to) {
    EventFile file(folder_, from);
    for (std::int64_t step = from + 1; step <= to; ++step) {
      file.add_scalars(step, std::vector<Scalar>{{"train/loss", static_cast<float>(step)}});
      if (step % 2 == 0) file.add_text(step, "samples/1", "one\n# two");
    }
  }

  /// Steps with values, over all files sorted by name; every record must be complete.
  std::vector<std::int64_t> steps() const {
    std::vector<std::int64_t> steps;
    for (const fs::path& path : files()) {
      const std::string bytes = read_all(path);
      for (std::string_view rest = bytes; !rest.empty();) {
        const std::uint64_t length = record_length(rest.substr(0, kRecordHead)).value();
        const std::string_view data = rest.substr(kRecordHead, length);
        EXPECT_TRUE(record_matches(data, rest.substr(kRecordHead + length, kRecordTail)));
        const EventHead head = read_event(data).value();
        if (head.has_values) steps.push_back(head.step);
        rest.remove_prefix(kRecordHead + length + kRecordTail);
      }
    }
    return steps;
  }

  void cut(std::int64_t step) {
    cut_events_after(folder_, step, [&](const std::string& line) { log_ += line + "\n"; });
  }

  test::Folder base_;
  fs::path folder_ = base_.path / "run" / "tensorboard";
  std::string log_;
};

TEST_F(EventFiles, AreCutBack) {
  using Steps = std::vector<std::int64_t>;
  cut(5);
  EXPECT_FALSE(fs::exists(folder_)) << "cutting makes nothing";
  train(0, 4);
  EXPECT_EQ(steps(), (Steps{1, 2, 2, 3, 4, 4}));
  cut(3);
  EXPECT_EQ(steps(), (Steps{1, 2, 2, 3}));
  train(3, 6);
  train(6, 8);
  EXPECT_EQ(files().size(), 3u);
  EXPECT_EQ(steps(), (Steps{1, 2, 2, 3, 4, 4, 5, 6, 6, 7, 8, 8}))
      << "names in the order of the starts, all in a second";
  cut(2);
  EXPECT_EQ(steps(), (Steps{1, 2, 2}));
  EXPECT_EQ(files().size(), 1u) << "files without a value go";
  train(2, 2);
  cut(2);
  EXPECT_EQ(files().size(), 1u) << "also that of a start without a step";
  cut(0);
  EXPECT_TRUE(files().empty());
  EXPECT_EQ(log_, "");
}

TEST_F(EventFiles, ATornRecordIsCutSilently) {
  train(0, 3);
  const fs::path path = files().front();
  const std::string whole = read_all(path), last = event_record(scalars_event(1, 4, std::vector<Scalar>{{"a", 1}}));
  for (std::size_t size = 1; size < last.size(); ++size) {
    write_all(path, whole + last.substr(0, size));
    cut(9);
    EXPECT_EQ(read_all(path), whole) << size;
  }
  EXPECT_EQ(log_, "");
}

TEST_F(EventFiles, DamageIsNamedAndCut) {
  train(0, 1);
  const fs::path path = files().front();
  const std::string kept = read_all(path);
  std::string next = event_record(scalars_event(1, 2, std::vector<Scalar>{{"a", 1}}));
  for (const std::size_t at : {std::size_t{0}, std::size_t{9}, std::size_t{20}, next.size() - 1}) {
    std::string wrong = next;
    wrong[at] = static_cast<char>(wrong[at] ^ 1);
    write_all(path, kept + wrong + next);
    log_.clear();
    cut(9);
    EXPECT_EQ(read_all(path), kept) << at;
    EXPECT_TRUE(test::has_facts(log_, {path.string(), "damaged", "byte " + std::to_string(kept.size())}));
  }
  write_all(path, kept + event_record("\x0b") + next);
  cut(9);
  EXPECT_EQ(read_all(path), kept) << "a record that is no event";
}

TEST_F(EventFiles, OthersStayAsTheyAre) {
  fs::create_directories(folder_);
  const fs::path other = folder_ / "events.out.tfevents.1700000000.host.1.0",
                 later = folder_ / "events.out.tfevents.9999999998.host.1.0.llmc";
  write_all(other, "of another program");
  write_all(later, event_record(scalars_event(1, 1, std::vector<Scalar>{{"a", 1}})));
  cut(1);
  EXPECT_EQ(read_all(other), "of another program");
  train(1, 2);
  EXPECT_EQ(files().back().filename().string().substr(0, 30), "events.out.tfevents.9999999999")
      << "behind a clock that was ahead";
}

}  // namespace
}  // namespace llmc

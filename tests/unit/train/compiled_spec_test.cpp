// Finds a trainer's spec folder: unmoved, in a moved tree, and for a copy.
#include "program/compiled_spec.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>

#include "error.h"
#include "runs.h"
#include "trainer/startup/phase.h"
#include "trainer/startup/resume_line.h"

namespace llmc::fake {
namespace {

class Place : public Runs {
 protected:
  void SetUp() override {
    Runs::SetUp();
    fs::create_directories(folder_ / "tree/specs");
    fs::create_directories(folder_ / "tree/build/a");
    std::ofstream(folder_ / "tree/specs/a.yaml") << "name: a\n";
    note(folder_ / "tree/build/a", folder_ / "tree/specs");
  }
  static void note(const fs::path& trainer, const fs::path& specs) {
    std::ofstream(trainer / kSpecDirectoryFile) << specs.string() << "\n" << trainer.string() << "\n";
    std::ofstream(trainer / kSpecFilesFile)
        << file_checksum(specs / "a.yaml") << " " << (specs / "a.yaml").string() << "\n";
  }
  std::string refusal(const fs::path& trainer) {
    try {
      return "taken: " + default_base(trainer).string();
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.code(), Exit::usage);
      return failure.what();
    }
  }
};

TEST_F(Place, OfATrainerThatWasNotMoved) {
  EXPECT_EQ(default_base(folder_ / "tree/build/a"), folder_ / "tree/specs");
  fs::remove(folder_ / "tree/specs/a.yaml");
  EXPECT_EQ(default_base(folder_ / "tree/build/a"), folder_ / "tree/specs") << "the trainer needs no spec";
}

TEST_F(Place, NothingNotedIsTheCurrentFolder) { EXPECT_EQ(default_base(folder_), fs::current_path()); }

TEST_F(Place, ACopiedTreeHasItsOwnSpec) {
  fs::create_directory(folder_ / "deeper");
  fs::copy(folder_ / "tree", folder_ / "deeper/tree", fs::copy_options::recursive);
  EXPECT_EQ(default_base(folder_ / "deeper/tree/build/a"), folder_ / "deeper/tree/specs");
  std::ofstream(folder_ / "tree/specs/a.yaml", std::ios::app) << "# edited\n";
  EXPECT_TRUE(edited_spec_files(folder_ / "deeper/tree/build/a").empty()) << "the original's edit is its own";
  std::ofstream(folder_ / "deeper/tree/specs/a.yaml", std::ios::app) << "# edited\n";
  EXPECT_EQ(edited_spec_files(folder_ / "deeper/tree/build/a"),
            std::vector<std::string>{(folder_ / "deeper/tree/specs/a.yaml").string()});
}

TEST_F(Place, AMovedTreeHasItsOwnSpec) {
  fs::rename(folder_ / "tree", folder_ / "moved");
  EXPECT_EQ(default_base(folder_ / "moved/build/a"), folder_ / "moved/specs");
}

TEST_F(Place, ACopyWithoutItsSpecIsRefused) {
  fs::create_directories(folder_ / "else/where");
  fs::copy(folder_ / "tree/build/a", folder_ / "else/where/a", fs::copy_options::recursive);
  const std::string said = refusal(folder_ / "else/where/a");
  for (const fs::path& path : {folder_ / "tree/build/a", folder_ / "else/where/a", folder_ / "tree/specs"})
    EXPECT_TRUE(contains(said, "'" + path.string() + "'")) << said;
  EXPECT_TRUE(contains(said, "--base DIR")) << said;
  fs::create_directories(folder_ / "else/specs");  // a folder of that name with other specs
  EXPECT_TRUE(contains(refusal(folder_ / "else/where/a"), "--base DIR"));
}

/// From here, too, the original's spec is at its old path: the copy has none of its own.
TEST_F(Place, ACopyBesideTheOriginalIsRefused) {
  fs::copy(folder_ / "tree/build/a", folder_ / "tree/build/b", fs::copy_options::recursive);
  EXPECT_TRUE(contains(refusal(folder_ / "tree/build/b"), "--base DIR"));
}

TEST_F(Place, ALinkToTheFolderIsTheSamePlace) {
  fs::create_directory_symlink(folder_ / "tree", folder_ / "link");
  EXPECT_EQ(default_base(folder_ / "link/build/a"), folder_ / "tree/specs");
}

TEST_F(Place, TheSpecOfATrainer) {
  EXPECT_EQ(noted_spec(folder_), fs::path());
  EXPECT_EQ(noted_spec(folder_ / "tree/build/a"), folder_ / "tree/specs/a.yaml");
  fs::create_directory(folder_ / "far");
  fs::copy(folder_ / "tree/build/a", folder_ / "far/a", fs::copy_options::recursive);
  EXPECT_EQ(noted_spec(folder_ / "far/a"), folder_ / "tree/specs/a.yaml") << "copied without it";
  fs::rename(folder_ / "tree", folder_ / "moved");
  EXPECT_EQ(noted_spec(folder_ / "moved/build/a"), folder_ / "moved/specs/a.yaml");
}

/// A renamed spec is found by its content and suggested under its new name.
TEST_F(Place, ARenamedSpec) {
  const fs::path trainer = folder_ / "tree/build/a";
  std::ofstream(folder_ / "tree/specs/other.yaml") << "name: b\n";
  fs::rename(folder_ / "tree/specs/a.yaml", folder_ / "tree/specs/new name.yaml");
  EXPECT_EQ(noted_spec(trainer), folder_ / "tree/specs/new name.yaml");
  EXPECT_EQ(spec_when_compiled(trainer), folder_ / "tree/specs/a.yaml");
  setenv(kResumeVariable,
         fmt::format("{} llmc run {} -o out", getpid(), (folder_ / "tree/specs/a.yaml").string()).c_str(), 1);
  EXPECT_EQ(resume_line({"trainer"}, spec_when_compiled(trainer), noted_spec(trainer)),
            fmt::format("llmc run '{}' -o out", (folder_ / "tree/specs/new name.yaml").string()));
  EXPECT_EQ(resume_line({"trainer"}, {}, {}),
            std::string(std::getenv(kResumeVariable) + std::to_string(getpid()).size() + 1));
  unsetenv(kResumeVariable);
  fs::rename(folder_ / "tree", folder_ / "moved");
  EXPECT_EQ(default_base(folder_ / "moved/build/a"), folder_ / "moved/specs");
  EXPECT_EQ(noted_spec(folder_ / "moved/build/a"), folder_ / "moved/specs/new name.yaml");
  fs::remove(folder_ / "moved/specs/new name.yaml");
  EXPECT_EQ(noted_spec(folder_ / "moved/build/a"), folder_ / "tree/specs/a.yaml") << "nothing has its content";
}

TEST(ResumeLine, LeavesOutWhatOneStartTook) {
  EXPECT_EQ(words_to_go_on({"t", "--timeline", "a", "--profile=2:3", "--timeline-steps", "3:2", "--trace", "b",
                            "--allow=seed", "--follow-spec", "--resume", "c", "seed=3"}),
            (Words{"t", "--trace", "b", "seed=3"}));
  EXPECT_EQ(words_for_next({"t", "--timing=x", "--timeline", "a", "--trace", "b", "--steps", "9"}),
            (Words{"t", "--steps", "9"}));
}

/// Two specs with one name: the default run folder belongs to the first while its file exists.
TEST_F(Place, AnotherSpecOfTheSameName) {
  std::ofstream(folder_ / "tree/specs/b.yaml") << "name: a\n";
  for (const char* name : {"a", "b"}) {
    const fs::path build = folder_ / "tree/build" / name;
    fs::create_directories(build);
    fs::copy(FAKE_TRAINER, build / "trainer");
    std::ofstream(build / kSpecDirectoryFile) << (folder_ / "data").string() << "\n" << build.string() << "\n";
    std::ofstream(build / kSpecFilesFile) << "0 " << (folder_ / "tree/specs" / name).string() << ".yaml\n";
  }
  const auto start = [&](const std::string& tree, const std::string& name, const std::string& words) {
    const std::string trainer = (folder_ / tree / "build" / name / "trainer").string();
    const std::string line = trainer + " --quiet --threads 1 " + words + " >" + (folder_ / "out").string() + " 2>&1";
    return WEXITSTATUS(std::system(("cd " + folder_.string() + " && " + line).c_str()));
  };
  const auto said = [&] { return read_file(folder_ / "out"); };
  const std::string a = (folder_ / "tree/specs/a.yaml").string(), b = (folder_ / "tree/specs/b.yaml").string();
  ASSERT_EQ(start("tree", "a", "--steps 1"), 0) << said();
  EXPECT_EQ(lines("data/runs/fake/history.jsonl")[0]["spec"], "../../../tree/specs/a.yaml");
  ASSERT_EQ(start("tree", "a", "--steps 2"), 0) << said();
  EXPECT_EQ(start("tree", "b", "--steps 3"), 6);
  EXPECT_TRUE(test::has_facts(said(), {"trainer of '" + a + "'", "of '" + b + "'", "another `name`", "--run DIR"}));
  EXPECT_EQ(lines("data/runs/fake/history.jsonl").size(), 2u);
  EXPECT_EQ(start("tree", "b", "--steps 3 --run data/runs/fake"), 0) << said();
  EXPECT_EQ(start("tree", "a", "--steps 4"), 6) << "it is the run of b now";
  EXPECT_EQ(start("tree", "b", "--steps 4"), 0) << said();
  // A missing spec was renamed; one moved along with the run is the same.
  fs::rename(a, folder_ / "tree/specs/c.yaml");
  std::ofstream(folder_ / "tree/build/a" / kSpecFilesFile) << "0 " << (folder_ / "tree/specs/c.yaml").string() << "\n";
  fs::rename(b, folder_ / "tree/specs/d.yaml");
  EXPECT_EQ(start("tree", "a", "--steps 5"), 0) << said();
}

/// With a complete trainer: --base decides, and commands that need no folder work without one.
TEST_F(Place, TheCopyOfATrainer) {
  fs::create_directories(folder_ / "copy");
  fs::copy(FAKE_TRAINER, folder_ / "copy/trainer");
  for (const char* file : {kSpecDirectoryFile, kSpecFilesFile})
    fs::copy(folder_ / "tree/build/a" / file, folder_ / "copy");
  const std::string trainer = (folder_ / "copy/trainer").string(), quiet = " >" + (folder_ / "out").string() + " 2>&1";
  const auto exit_code = [&](const std::string& words) {
    return WEXITSTATUS(std::system(("cd " + folder_.string() + " && " + trainer + " " + words + quiet).c_str()));
  };
  EXPECT_EQ(exit_code("--plan"), 0);
  EXPECT_EQ(exit_code("--help"), 0);
  EXPECT_EQ(exit_code("--steps 1"), 2);
  EXPECT_EQ(exit_code("--run run --steps 1"), 2);
  EXPECT_FALSE(fs::exists(folder_ / "tree/specs/runs") || fs::exists(folder_ / "run"));
  EXPECT_EQ(exit_code("--base data --steps 1"), 0) << read_file(folder_ / "out");
  EXPECT_TRUE(fs::exists(folder_ / "data/runs/fake/metrics.jsonl"));
}

}  // namespace
}  // namespace llmc::fake

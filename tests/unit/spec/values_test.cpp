// Values without a YAML library: the output of to_yaml is read back, and single values are read as YAML's reader does.
#include "spec/values.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <random>

#include "../facts.h"
#include "../folder.h"
#include "compiler/spec/yaml_reader.h"
#include "error.h"
#include "good_spec.h"
#include "spec/fingerprint.h"
#include "spec/flow_reader.h"
#include "spec/length/token_budget.h"
#include "spec/print.h"
#include "spec/validation_sets.h"

namespace llmc::spec {
namespace {

void expect_read_back(const Values& values) {
  const std::string text = to_yaml(values);
  const Values again = read_values(text, "spec.yaml");
  EXPECT_EQ(all_values(again.spec), all_values(values.spec)) << text;
  EXPECT_EQ(again.derived, values.derived) << text;
  EXPECT_EQ(to_yaml(again), text);
  EXPECT_EQ(all_values(resolve(text).spec), all_values(values.spec)) << "as llmc reads it\n" << text;
}

TEST(Values, ReadBackWhatIsPrinted) {
  expect_read_back(values_of(resolve(kGood)));
  expect_read_back(values_of(resolve(
      kGood, {"model.rope_scaling={type: llama3, factor: 8.5}", "memory.recompute={every: 3}", "schedule.kind=wsd",
              "data.validation=[{path: \"v *.bin\", format: llmc}]", "evaluation.every=3", "schedule.warmup_steps=400",
              "target={kind: cuda, arch: [80, 90a]}", "init.residual=0.125", "seed=9223372036854775807"})));
}

TEST(Values, ChoicesReadBack) {
  for (const char* recompute :
       {"auto", "none", "full", "[norms, qkv]", "{layers: {0: full, 2-4: [norms, swiglu], 5: none}}"})
    expect_read_back(values_of(resolve(
        kGood, {std::string("memory.recompute=") + recompute, "parallel.shard=auto", "parallel.world_size=2"})));
}

TEST(Values, AFileOfADeviceIsAPathAndItsNameIsNone) {
  const auto moved = [](const char* device) {
    Spec spec = resolve(kGood, {std::string("target.device=") + device}).spec;
    resolve_paths(spec, "/specs");
    relate_paths(spec, "/specs/run");
    return spec.target.device;
  };
  EXPECT_EQ(moved("h100-sxm"), "h100-sxm");
  EXPECT_EQ(moved("/specs/mine.yaml"), "../mine.yaml");
  EXPECT_EQ(moved("/specs/mine"), "../mine");
}

const char* const kNamed = "  validation: {web: \"web *.bin\", path: v.bin, Code_2: code.bin}\n";

TEST(Values, NamedValidationSetsReadBack) {
  expect_read_back(values_of(resolve(std::string(kGood) + kNamed, {"checkpoint.best=Code_2", "evaluation.every=3"})));
  expect_read_back(values_of(resolve(kGood, {"data.validation.web=web.bin", "data.validation.format=nanogpt"})));
}

TEST(Values, NamedValidationSetsMergeByName) {
  const auto sets = [](const Values& values) {
    std::string text = values.spec.data.validation.path + ":";
    for (const auto& [name, source] : values.spec.data.validation_sets)
      text += " " + name + "=" + source.path + (source.format.empty() ? "" : ":" + source.format);
    return text;
  };
  const Values built = values_of(resolve(std::string(kGood) + kNamed));
  EXPECT_EQ(sets(built), "v.bin: web=web *.bin Code_2=code.bin");
  EXPECT_EQ(sets(override_values(built, {"data.validation.web=", "data.validation.third=t *.bin"}, "/x")),
            "v.bin: Code_2=code.bin third=/x/t *.bin");
  EXPECT_EQ(sets(override_values(built, {"data.validation.Code_2=../c.bin", "data.validation.path="}, "/x")),
            ": web=web *.bin Code_2=/c.bin");
  // A list of one source stays and accepts names next to it.
  const std::string list = std::string(kGood) + "  validation: [{path: v.bin, format: llmc}]\n";
  EXPECT_EQ(sets(values_of(resolve(list, {"data.validation.web=w.bin"}))), "v.bin: web=w.bin");
  EXPECT_EQ(sets(values_of(resolve(list, {"data.validation={web: w.bin, code: c.bin}"}))), ": web=w.bin code=c.bin");
  EXPECT_EQ(sets(values_of(resolve(kGood, {"data.validation.web=w.bin", "data.validation.path=v.bin",
                                           "data.validation.code=c.bin", "data.validation.format=llmc"}))),
            "v.bin: web=w.bin code=c.bin");
  const std::vector<Change> changed =
      changes(built.spec, override_values(built, {"data.validation.web=", "data.validation.third=t"}, "/x").spec);
  ASSERT_EQ(changed.size(), 2u);
  EXPECT_EQ(changed[0].path + " " + changed[0].before + " -> " + changed[0].after,
            "data.validation.web \"web *.bin\" -> none");
  EXPECT_EQ(changed[1].path + " " + changed[1].before + " -> " + changed[1].after,
            "data.validation.third none -> /x/t");
  Spec moved = built.spec;
  resolve_paths(moved, "/data");
  EXPECT_EQ(moved.data.validation_sets[0].source.path, "/data/web *.bin");
  relate_paths(moved, "/data/run");
  EXPECT_EQ(moved.data.validation_sets[1].source.path, "../code.bin");
  const test::Folder folder;
  const std::filesystem::path root = std::filesystem::canonical(folder.path), link = root / "link";
  folder.write("far/runs/x", "");
  std::filesystem::create_directory_symlink("far/runs", link);
  Spec linked = built.spec;
  resolve_paths(linked, root);
  relate_paths(linked, link / "run");
  EXPECT_EQ(linked.data.validation_sets[0].source.path, root / "web *.bin") << "`..` of link is far";
}

TEST(Values, AValidationSetMayHaveAFormatOfItsOwn) {
  const auto formats = [](const std::vector<std::string>& words,
                          const std::string& text = std::string(kGood) + kNamed) {
    std::string list;
    for (const ValidationSet& set : validation_sets(resolve(text, words).spec.data))
      list += (list.empty() ? "" : " ") + set.word() + ":" + set.source.path + ":" + set.source.format;
    return list;
  };
  EXPECT_EQ(formats({"data.validation.format=llmc", "data.validation.Code_2.format=nanogpt"}),
            "validation:v.bin:llmc web:web *.bin:llmc Code_2:code.bin:nanogpt");
  const std::string map = std::string(kGood) + "  validation: {web: {path: w.bin, format: nanogpt32}}\n";
  EXPECT_EQ(formats({}, map), "web:w.bin:nanogpt32");
  EXPECT_EQ(formats({"data.validation.web=x.bin"}, map), "web:x.bin:nanogpt32") << "another path alone";
  EXPECT_EQ(formats({"data.validation.web.path=x.bin"}, map), "web:x.bin:nanogpt32");
  EXPECT_EQ(formats({"data.validation.web="}, map), "");
  EXPECT_EQ(formats({"data.validation.web={path: x.bin, format: llmc}"}, map), "web:x.bin:llmc");
  EXPECT_EQ(formats({"data.validation.web={format: llmc}"}, map), "web:w.bin:llmc");
  const Resolved both = resolve(map, {"data.validation.web.format=llmc"});
  expect_read_back(values_of(both));
  EXPECT_NE(
      to_yaml(both, false).find("  validation:\n    format: auto\n    web:\n      path: w.bin\n      format: llmc\n"),
      std::string::npos)
      << to_yaml(both, false);
  const std::string origins = to_yaml(both, true);
  EXPECT_NE(origins.find("# good.yaml:13\n      format: llmc"), std::string::npos) << origins;
  EXPECT_NE(origins.find("# override\n", origins.find("      format: llmc")), std::string::npos) << origins;
  const Values built = values_of(both), other = override_values(built, {"data.validation.web=/y.bin"}, "/x");
  EXPECT_EQ(other.spec.data.validation_sets[0].source.format, "llmc");
  const std::vector<Change> changed = changes(built.spec, resolve(map).spec);
  ASSERT_EQ(changed.size(), 1u);
  EXPECT_EQ(changed[0].path + " " + changed[0].before + " -> " + changed[0].after,
            "data.validation.web.format llmc -> nanogpt32");
  const LoadResult twice = load_text(map, "a.yaml", {"data.validation.web=a", "data.validation.web.path=b"});
  EXPECT_EQ(codes_of(twice), "E0412") << "one value by two spellings";
}

TEST(Values, NamesOfValidationSetsAreChecked) {
  const auto said = [](const std::string& validation, const std::vector<std::string>& words = {}) {
    const LoadResult result = load_text(std::string(kGood) + validation, "spec.yaml", words);
    return result.diagnostics.empty() ? "" : result.diagnostics[0].message + "; " + result.diagnostics[0].advice;
  };
  for (const char* wrong :
       {"1st", "a b", "a/b", "-a", "none", "validation", "é", "abcdefghijklmnopqrstuvwxyz-123456"}) {
    const std::string text = said("  validation: {\"" + std::string(wrong) + "\": a.bin, web: b.bin}\n");
    EXPECT_TRUE(test::has_facts(text, {"name", "letters", "digits", "-", "_", "32"})) << wrong;
  }
  EXPECT_EQ(said("  validation: {abcdefghijklmnopqrstuvwxyz-12345: a.bin, z9: b.bin}\n"), "");
  EXPECT_EQ(said("  validation: {web: {format: llmc}}\n").substr(0, 32), "data.validation.web has no path;");
  EXPECT_EQ(said("  validation: {web: {path: a.bin, format: gpt}}\n").substr(0, 39),
            "data.validation.web.format takes auto, ");
  EXPECT_TRUE(test::has_facts(said("  validation: {web: {path: a.bin, fromat: llmc}}\n"),
                              {"\"fromat\" in data.validation.web; ", " format?"}));
  EXPECT_EQ(said("  validation: {web: [a.bin]}\n").substr(0, 46), "data.validation.web takes a path, not a list; ");
  EXPECT_EQ(said("  validation: {web: \"\"}\n").substr(0, 30), "data.validation.web is empty; ");
  // A list contains one source, whose keys are no names.
  EXPECT_TRUE(
      test::has_facts(said("  validation: [{path: a.bin, pth: b.bin}]\n"), {"\"pth\" in data.validation; ", "path "}));
  EXPECT_NE(said("  validation: {path: a.bin}\n"), "") << "one source stands in a list";
  EXPECT_TRUE(test::has_facts(said("", {"data.validation.web=a", "checkpoint.best=wep"}),
                              {"\"wep\"", "checkpoint.best; ", " web?"}));
  EXPECT_TRUE(test::has_facts(said("", {"data.validation.web=a", "checkpoint.best=validation"}),
                              {"\"validation\"", "checkpoint.best; ", "web or none"}));
}

TEST(Values, NamesThatBeginWithTheWordAreMeant) {
  const std::vector<std::string> devices = {"a10", "h100-nvl", "h100-pcie", "h100-sxm", "h200", "l4"};
  EXPECT_EQ(did_you_mean("h100", devices), "Did you mean h100-nvl, h100-pcie or h100-sxm?") << "h200 is another device";
  EXPECT_EQ(did_you_mean("h20", devices), "Did you mean h200?");
  EXPECT_EQ(did_you_mean("h10O-sxm", devices), "Did you mean h100-sxm?");
  EXPECT_EQ(did_you_mean("H200", devices), "Did you mean h200?");
  EXPECT_EQ(did_you_mean("paln", {"plan", "check"}), "Did you mean plan?") << "a swap is one slip";
  EXPECT_EQ(did_you_mean("h", devices), "") << "one letter says nothing";
  EXPECT_EQ(did_you_mean("tpu-v5", devices), "");
  EXPECT_EQ(begun_by("h100-", devices).size(), 3u);
}

TEST(Values, HostileTexts) {
  std::mt19937 random(3);
  const std::vector<std::string> pieces = {"\"", "\\", "'", "\n", "\t", "#",    " #", ": ", "- ",
                                           "é",  "日", "{", "}",  "[",  "]",    ",",  "&",  "*",
                                           "!",  "%",  "@", "`",  " ",  "null", "~",  "0",  "# default: "};
  for (int i = 0; i < 300; ++i) {
    Values values = values_of(resolve(kGood));
    std::string text;
    for (std::size_t n = 1 + random() % 8; n > 0; --n) text += pieces[random() % pieces.size()];
    values.spec.data.tokenizer = "t.model";
    values.spec.sampling.prompts = {text, "x"};
    expect_read_back(values);
  }
}

TEST(Values, DamagedTextsAreRefused) {
  const std::string good = to_yaml(values_of(resolve(kGood)));
  const auto problem = [](const std::string& text) -> std::string {
    try {
      read_values(text, "spec.yaml");
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(problem(good), "");
  EXPECT_NE(problem("nonsense\n").find("line 1 is no `key: value`"), std::string::npos);
  EXPECT_TRUE(test::has_facts(problem(good + "model:\n"),
                              {"line " + std::to_string(std::ranges::count(good, '\n') + 1), "set twice"}));
  EXPECT_NE(problem(good + "  a: 1\n"), "");
  EXPECT_NE(problem("seed: [1\n"), "");
  EXPECT_NE(problem("seed: fast\n").find("seed takes an integer"), std::string::npos);
  EXPECT_NE(problem("sed: 1\n").find("did you mean seed?"), std::string::npos);
  EXPECT_NE(problem("name: a\n\x01"), "");
  // A group in place of a list of one: the error has a position.
  std::string no_list = good;
  no_list.replace(no_list.find("- path"), 2, "  ");
  EXPECT_TRUE(test::has_facts(problem(no_list), {"data.train", "a list", "one source"}));
  std::mt19937 random(5);
  for (int i = 0; i < 3000; ++i) {  // no crash, no hang
    std::string text = good;
    for (std::size_t n = 1 + random() % 4; n > 0; --n) text[random() % text.size()] = static_cast<char>(random() % 128);
    problem(text);
  }
}

std::string shown(const Node& node) {
  std::string text;
  switch (node.kind) {
    case Node::Kind::null: return "null";
    case Node::Kind::bad: return "bad";
    case Node::Kind::scalar: return (node.plain ? "plain " : "quoted ") + node.text;
    case Node::Kind::list:
      for (const Node& item : node.items) text += shown(item) + "; ";
      return "[" + text + "]";
    case Node::Kind::map:
      for (const Member& member : node.members) text += member.key.text + ": " + shown(member.value) + "; ";
      return "{" + text + "}";
  }
  return text;
}

/// Every line has the same meaning to the reader of overrides and to YAML.
TEST(FlowReader, AgreesWithYaml) {
  std::mt19937 random(11);
  const std::vector<std::string> pieces = {"a",    "12",       "[",       "]",    "{",           "}",      ", ",
                                           ": ",   "\"x\\n\"", "'it''s'", " ",    "k: 1",        "null",   "~",
                                           " # c", "a:b",      "-",       "1e-3", "\"\\u00e9\"", "[a, b]", ","};
  int both = 0;
  for (int i = 0; i < 60000; ++i) {
    std::string text;
    for (std::size_t n = 1 + random() % 7; n > 0; --n) text += pieces[random() % pieces.size()];
    if (text.find_first_not_of(" ") == std::string::npos) continue;
    const Source source{"x", text, true};
    std::vector<Diagnostic> ours, theirs;
    const auto flow = read_flow(source, 0, text.size(), ours);
    if (!flow || flow->kind == Node::Kind::null) continue;
    const auto yaml = read_yaml(source, theirs);
    ASSERT_TRUE(yaml) << text;
    EXPECT_EQ(shown(*flow), shown(*yaml)) << text;
    EXPECT_TRUE(ours.empty());
    ++both;
  }
  EXPECT_GT(both, 5000);
}

TEST(OverrideValues, DerivedValuesFollow) {
  const Values built = values_of(resolve(kGood));  // 20000 steps, a warm-up of 2 %
  EXPECT_EQ(built.spec.schedule.warmup_steps, 400);
  const Values shorter = override_values(built, {"schedule.steps=1000"}, "/x");
  EXPECT_EQ(shorter.spec.schedule.warmup_steps, resolve(kGood, {"schedule.steps=1000"}).spec.schedule.warmup_steps);
  EXPECT_EQ(shorter.spec.schedule.warmup_steps, 20);
  const Values given =
      override_values(values_of(resolve(kGood, {"schedule.warmup_steps=400"})), {"schedule.steps=1000"}, "/x");
  EXPECT_EQ(given.spec.schedule.warmup_steps, 400);
  EXPECT_EQ(override_values(shorter, {"schedule.warmup_steps=7"}, "/x").derived.count("schedule.warmup_steps"), 0u);
  EXPECT_EQ(override_values(built, {"optimizer.weight_decay=0"}, "/x").spec.optimizer.weight_decay_of[0], 0);
}

TEST(OverrideValues, StepsFollowFromTokens) {
  const Values built = values_of(resolve(kGood, {"schedule.tokens=20x"}));
  const Spec& spec = built.spec;
  const std::int64_t parameters = parameter_count(spec.model);
  EXPECT_EQ(spec.schedule.steps, (20 * parameters + spec.batch.tokens - 1) / spec.batch.tokens);
  EXPECT_EQ(built.derived.count("schedule.steps"), 1u);
  EXPECT_EQ(values_of(resolve(kGood)).derived.count("schedule.steps"), 0u);
  EXPECT_GE(tokens_per_parameter(spec), 20);
  // Printed and read back, as in a trainer.
  const Values read = read_values(to_yaml(built), "spec.yaml");
  EXPECT_EQ(read.derived, built.derived);
  EXPECT_EQ(override_values(read, {"schedule.tokens=40x"}, "/x").spec.schedule.steps,
            (40 * parameters + spec.batch.tokens - 1) / spec.batch.tokens);
  const std::string words = fmt::format("batch.tokens={}", 2 * spec.batch.tokens);
  EXPECT_EQ(override_values(read, {words}, "/x").spec.schedule.steps, (spec.schedule.steps + 1) / 2);
  const Values steps = override_values(read, {"schedule.steps=7000"}, "/x");
  EXPECT_EQ(steps.spec.schedule.steps, 7000);
  EXPECT_FALSE(steps.spec.schedule.tokens.given());
  EXPECT_EQ(steps.derived.count("schedule.steps"), 0u);
  const Values tokens = override_values(steps, {"schedule.tokens=" + std::to_string(9 * spec.batch.tokens + 1)}, "/x");
  EXPECT_EQ(tokens.spec.schedule.steps, 10);
  EXPECT_EQ(tokens.spec.schedule.warmup_steps, 0);
  EXPECT_THROW(override_values(read, {"schedule.steps=7", "schedule.tokens=2x"}, "/x"), Failure);
  EXPECT_EQ(resolve(kGood, {"schedule.tokens=8192"}).spec.schedule.steps, 1);
}

TEST(OverrideValues, Paths) {
  Values values = values_of(resolve(kGood, {"data.tokenizer=../t.model", "data.validation.path=/abs/v.bin"}));
  resolve_paths(values.spec, "/home/u/specs");
  EXPECT_EQ(values.spec.data.train.path, "/home/u/specs/train-*.bin");
  EXPECT_EQ(values.spec.data.tokenizer, "/home/u/t.model");
  values = override_values(values, {"data.train.path=../d/*.bin"}, "/home/u/here");
  EXPECT_EQ(values.spec.data.train.path, "/home/u/d/*.bin");
  relate_paths(values.spec, "/home/u/runs/a");
  EXPECT_EQ(values.spec.data.train.path, "../../d/*.bin");
  EXPECT_EQ(values.spec.data.tokenizer, "../../t.model");
  EXPECT_EQ(values.spec.data.validation.path, "/abs/v.bin") << "nothing in common";
}

TEST(OverrideValues, NothingLeavesAPathOut) {
  const Values built = values_of(resolve(kGood, {"data.tokenizer=t.model", "data.validation.path=v.bin"}));
  EXPECT_EQ(built.spec.data.validation.path, "v.bin");
  const Values without = override_values(built, {"data.tokenizer=", "data.validation.path="}, "/x");
  EXPECT_EQ(without.spec.data.tokenizer, "");
  EXPECT_EQ(without.spec.data.validation.path, "");
  EXPECT_EQ(resolve(kGood, {"data.validation.path="}).spec.data.validation.path, "");
  for (const char* word : {"data.train.path=", "seed="})
    EXPECT_THROW(override_values(built, {word}, "/x"), Failure) << word;
}

TEST(Changes, NamesEveryKeyWithBothValues) {
  const Spec before = resolve(kGood).spec;
  const auto list = changes(before, resolve(kGood, {"optimizer.lr=1e-3", "schedule.kind=wsd"}).spec);
  std::string text;
  for (const Change& change : list) text += change.key->path + " " + change.before + " -> " + change.after + "\n";
  EXPECT_EQ(text, "optimizer.lr 0.0003 -> 0.001\nschedule.kind cosine -> wsd\nschedule.decay_fraction none -> 0.2\n");
}

}  // namespace
}  // namespace llmc::spec

// Lists of maps and maps of maps, in tables made here: read, overridden, printed, compared, described.
#include <fmt/format.h>

#include <deque>
#include <nlohmann/json.hpp>

#include "../facts.h"
#include "compiler/spec/documentation.h"
#include "compiler/spec/yaml_reader.h"
#include "error.h"
#include "good_spec.h"
#include "spec/advice/suggestions.h"
#include "spec/binder.h"
#include "spec/overrides.h"
#include "spec/print.h"
#include "spec/schema/rows.h"
#include "spec/values.h"

namespace llmc::spec {
namespace {

/// Members of a source with a weight. The test keeps the weight in `format`.
std::vector<BoundMember<NamedSource>> members() {
  KeyRow weight = named("weight").above(0).fallback("1").doc("How much of it.");
  weight.key.type = Type::number;
  return {
      bind_member<NamedSource>(Type::string, named("path").path().required().doc("Where it is."),
                               LLMC_MEMBER(source.path)),
      {weight, [](const NamedSource& entry) -> Value { return std::stod(entry.source.format); },
       [](NamedSource& entry, const Value& value) { entry.source.format = fmt::to_string(std::get<double>(value)); }}};
}

/// Keys of a spec, with `row` in place of the validation sets.
Schema with(KeyRow row, const KeyGroup& group) {
  std::vector<Key> rows;
  for (const Key& key : keys()) rows.push_back(key.path == "data.validation.NAME" ? row.doc("Sources.").key : key);
  std::vector<KeyGroup> all = groups();
  if (!group.path.empty()) all.push_back(group);
  return Schema(rows, all);
}

const Schema& list_table() {
  static const Schema schema =
      with(bind_entries<NamedSource>("data.sources", Type::list, LLMC_FIELD(data.validation_sets), members()), {});
  return schema;
}

const Schema& map_table(bool shorthand) {
  const auto make = [](bool has_shorthand) {
    KeyRow row = bind_entries<NamedSource>("data.mixture.NAME", Type::map, LLMC_FIELD(data.validation_sets), members())
                     .entry("source")
                     .reserved({"all"}, "is a word of nothing");
    if (has_shorthand) row.shorthand("path");
    return with(row, {"data.mixture", "Sources by name.", "", false});
  };
  static const Schema with_shorthand = make(true), without = make(false);
  return shorthand ? with_shorthand : without;
}

struct Read {
  Spec spec;
  std::vector<Diagnostic> diagnostics;
  std::string said;  // messages of llmc check
};

/// `more`: lines of the data section.
Read read(const Schema& schema, const std::string& more, const std::vector<std::string>& words = {}) {
  std::deque<Source> sources;
  const Source& source = sources.emplace_back(Source{"a.yaml", kGood + more, false});
  std::vector<Diagnostic> diagnostics;
  Node root = read_yaml(source, diagnostics).value_or(Node{});
  apply_overrides(root, words, sources, diagnostics, schema);
  BoundSpec bound = bind_tree(root, source, true, diagnostics, schema);
  const auto examine = [&](const Node& changed) {
    Examined examined;
    examined.spec = bind_tree(changed, source, true, examined.diagnostics, schema).spec;
    return examined;
  };
  suggest(root, examine, {}, sources, diagnostics, schema);
  sort_by_place(diagnostics);
  return {std::move(bound.spec), diagnostics, render(diagnostics)};
}

std::string sources_of(const Spec& spec) {
  std::string text;
  for (const NamedSource& source : spec.data.validation_sets)
    text += fmt::format("{}{}{} {}", text.empty() ? "" : ", ", source.name.empty() ? "" : source.name + "=",
                        source.source.path, source.source.format);
  return text;
}

std::string read_sources(const Schema& schema, const std::string& more, const std::vector<std::string>& words = {}) {
  const Read got = read(schema, more, words);
  return got.diagnostics.empty() ? sources_of(got.spec) : got.said;
}

/// Location and text of the first error: "a.yaml:15:7 E0201 there is ...; did you mean ...?".
std::string first_error(const Schema& schema, const std::string& more, const std::vector<std::string>& words = {}) {
  const Read got = read(schema, more, words);
  if (got.diagnostics.empty()) return sources_of(got.spec);
  const Diagnostic& error = got.diagnostics[0];
  const Location& place = error.places[0];
  return fmt::format("{}{} {} {}; {}", place.file,
                     place.command_line ? "" : fmt::format(":{}:{}", place.line, place.column), error.code,
                     error.message, error.advice);
}

const char* const kList = "  sources:\n    - path: a.bin\n      weight: 2\n    - {path: b.bin}\n";
const char* const kMap = "  mixture:\n    web: {path: w.bin, weight: 0.5}\n    code:\n      path: c.bin\n";

TEST(ListOfMaps, IsReadInBlockAndFlowStyle) {
  EXPECT_EQ(read_sources(list_table(), ""), "");
  EXPECT_EQ(read_sources(list_table(), kList), "a.bin 2, b.bin 1");
  EXPECT_EQ(read_sources(list_table(), "  sources: [{weight: 2, path: a.bin}, {path: b.bin}]\n"), "a.bin 2, b.bin 1");
  EXPECT_EQ(read_sources(list_table(), "  sources: []\n"), "");
}

TEST(ListOfMaps, ErrorsNameTheMapAndTheMember) {
  const auto said = [](const std::string& more) { return first_error(list_table(), more); };
  EXPECT_TRUE(test::has_facts(said("  sources:\n    - path: a.bin\n    - {path: b.bin, weight: 0}\n"),
                              {"a.yaml:15:29 E0205 ", "data.sources[1].weight", "\"0\"", "above 0"}));
  EXPECT_TRUE(test::has_facts(said("  sources:\n    - path: a.bin\n    - path: b.bin\n      wieght: 3\n"),
                              {"a.yaml:16:7 E0201 ", "\"wieght\" in data.sources[1]; ", " weight?"}));
  EXPECT_TRUE(test::has_facts(said("  sources:\n    - path: a.bin\n      colour: red\n"),
                              {"a.yaml:15:7 E0201 ", "\"colour\" in data.sources[0]; ", "path and weight"}));
  EXPECT_EQ(said("  sources:\n    - path: a.bin\n    - weight: 3\n"),
            "a.yaml:15:7 E0202 data.sources[1] has no path; add `path: a path` to it");
  EXPECT_TRUE(test::has_facts(said("  sources: [{}]\n"),
                              {"a.yaml:13:13 E0203 ", "data.sources[0]", "empty map", "{path: ...}"}));
  EXPECT_TRUE(test::has_facts(said("  sources: [a.bin]\n"), {"a.yaml:13:13 E0110 ", "data.sources[0]", "{path: ...}"}));
  EXPECT_TRUE(test::has_facts(said("  sources: {path: a.bin}\n"),
                              {"a.yaml:13:12 E0203 ", "data.sources", "write sources: [{path: ...}]"}));
  EXPECT_EQ(said("  sources: {\"[0]\": {path: a.bin}}\n").substr(0, 18), "a.yaml:13:12 E0203") << "words of overrides";
  EXPECT_EQ(said("  sources:\n").substr(0, 17), "a.yaml:13:3 E0203");
  EXPECT_EQ(said("  sources: [{path: a.bin, path: b.bin}]\n").substr(0, 46),
            "a.yaml:13:27 E0107 the key \"path\" is set twice");
  EXPECT_EQ(said("  sources:\n    - path:\n").substr(0, 51), "a.yaml:14:7 E0210 data.sources[0].path has no value");
}

TEST(ListOfMaps, AnOverrideChangesOneMember) {
  const auto words = [](const std::vector<std::string>& list) { return first_error(list_table(), kList, list); };
  EXPECT_EQ(words({"data.sources[1].weight=3"}), "a.bin 2, b.bin 3");
  EXPECT_EQ(words({"data.sources[0].path=x *.bin", "data.sources[1]={weight: 4}"}), "x *.bin 2, b.bin 4");
  EXPECT_EQ(words({"data.sources=[{path: y}]"}), "y 1");
  EXPECT_TRUE(test::has_facts(words({"data.sources[2].weight=3"}),
                              {"command line E0201 ", "data.sources[2]; ", "data.sources[1]"}));
  EXPECT_TRUE(test::has_facts(words({"data.sources[0].wieght=3"}),
                              {"command line E0201 ", "\"wieght\" in data.sources[0]; ", " weight?"}));
  EXPECT_EQ(words({"data.sources[0].weight=-1"}).substr(0, 50), "command line E0205 data.sources[0].weight is \"-1\",");
  EXPECT_EQ(words({"data.sources[0].weight=1", "data.sources[0].weight=2"}).substr(0, 18), "command line E0412");
  EXPECT_EQ(words({"data.sources.0.weight=1"}).substr(0, 18), "command line E0201");
}

TEST(MapOfMaps, IsReadWithAndWithoutAShorthand) {
  for (const bool shorthand : {false, true})
    EXPECT_EQ(read_sources(map_table(shorthand), kMap), "web=w.bin 0.5, code=c.bin 1");
  EXPECT_EQ(read_sources(map_table(true), "  mixture: {web: w.bin, code: {path: c.bin, weight: 2}}\n"),
            "web=w.bin 1, code=c.bin 2");
  EXPECT_TRUE(test::has_facts(first_error(map_table(false), "  mixture: {web: w.bin}\n"),
                              {"a.yaml:13:18 E0110 ", "data.mixture.web", "{path: ...}"}));
}

TEST(MapOfMaps, ErrorsNameTheEntryAndTheMember) {
  const auto said = [](const std::string& more) { return first_error(map_table(true), more); };
  EXPECT_TRUE(test::has_facts(said("  mixture:\n    web: {path: w.bin, weight: x}\n"),
                              {"a.yaml:14:32 E0203 ", "data.mixture.web.weight ", "number above 0"}));
  EXPECT_TRUE(test::has_facts(said("  mixture:\n    web: {path: w.bin, wieght: 2}\n"),
                              {"a.yaml:14:24 E0201 ", "\"wieght\" in data.mixture.web; ", " weight?"}));
  EXPECT_EQ(said("  mixture:\n    web: {weight: 2}\n"),
            "a.yaml:14:10 E0202 data.mixture.web has no path; add `path: a path` to it");
  EXPECT_EQ(sources_of(read(map_table(false), "  mixture:\n    web: {weight: 2}\n").spec), "")
      << "an entry with an error changes no value";
  EXPECT_TRUE(test::has_facts(said("  mixture: {all: w.bin}\n"),
                              {"source", "digits", "-", "_", "32", "; all is a word of nothing"}));
  EXPECT_EQ(said("  mixture: {web: a, web: b}\n").substr(0, 18), "a.yaml:13:21 E0107");
  EXPECT_EQ(said("  mixture: w.bin\n").substr(0, 44), "a.yaml:13:12 E0110 data.mixture takes a map;");
}

TEST(MapOfMaps, AnOverrideChangesOneMember) {
  const auto words = [](const std::vector<std::string>& list) { return first_error(map_table(true), kMap, list); };
  EXPECT_EQ(words({"data.mixture.web.weight=2"}), "web=w.bin 2, code=c.bin 1");
  EXPECT_EQ(words({"data.mixture.web=x.bin"}), "web=x.bin 0.5, code=c.bin 1") << "the weight stays";
  EXPECT_EQ(words({"data.mixture.web="}), "code=c.bin 1");
  EXPECT_EQ(words({"data.mixture.more=m.bin", "data.mixture.more.weight=3"}),
            "web=w.bin 0.5, code=c.bin 1, more=m.bin 3");
  EXPECT_EQ(words({"data.mixture.web=x", "data.mixture.web.path=y"}).substr(0, 18), "command line E0412");
  EXPECT_TRUE(test::has_facts(words({"data.mixture.web.wieght=2"}),
                              {"command line E0201 ", "\"wieght\" in data.mixture.web; ", " weight?"}));
  EXPECT_EQ(words({"data.mixture={web: {weight: 7}}"}), "web=w.bin 7, code=c.bin 1") << "maps merge";
}

TEST(Entries, PrintReadBackAndReplaceOverValues) {
  struct Case {
    const Schema& schema;
    const char *text, *printed, *word, *changed, *change;
  };
  for (const Case& c :
       {Case{list_table(), kList,
             "  sources:\n    - path: a.bin\n      weight: 2\n    - path: b.bin\n      weight: 1\n",
             "data.sources[1].weight=3", "a.bin 2, b.bin 3", "data.sources[1].weight 1 -> 3"},
        Case{map_table(true), kMap, "  mixture:\n    web:\n      path: w.bin\n      weight: 0.5\n    code: c.bin\n",
             "data.mixture.code.weight=3", "web=w.bin 0.5, code=c.bin 3", "data.mixture.code.weight 1 -> 3"}}) {
    const Values values{read(c.schema, c.text).spec, {}};
    const std::string printed = to_yaml(values, {}, c.schema);
    EXPECT_NE(printed.find(c.printed), std::string::npos) << printed;
    const Values again = read_values(printed, "b.yaml", c.schema);
    EXPECT_EQ(sources_of(again.spec), sources_of(values.spec));
    EXPECT_EQ(to_yaml(again, {}, c.schema), printed);
    EXPECT_THROW(override_values(again, {c.word}, "/x", c.schema), Failure) << "compiled in";
    const Spec other = read(c.schema, c.text, {c.word}).spec;
    EXPECT_EQ(sources_of(other), c.changed);
    const std::vector<Change> changed = changes(values.spec, other, c.schema);
    ASSERT_EQ(changed.size(), 1u);
    EXPECT_EQ(changed[0].path + " " + changed[0].before + " -> " + changed[0].after, c.change);
    EXPECT_NE(canonical_text(values.spec, c.schema), canonical_text(other, c.schema));
  }
  EXPECT_NE(canonical_text(read(list_table(), kList).spec, list_table())
                .find("\ndata.sources=[{path: a.bin, weight: 2}, {path: b.bin, weight: 1}]\n"),
            std::string::npos);
  EXPECT_NE(canonical_text(read(map_table(true), kMap).spec, map_table(true))
                .find("\ndata.mixture.NAME={web: {path: w.bin, weight: 0.5}, code: c.bin}\n"),
            std::string::npos);
}

TEST(Entries, PrintTheOriginOfEachMember) {
  Resolved resolved;
  resolved.spec = read(list_table(), kList).spec;
  resolved.origins["data.sources[0].weight"] = {.kind = Origin::Kind::file, .file = "a.yaml", .line = 14};
  const std::string text = to_yaml(resolved, true, list_table());
  const auto at = [&](const std::string& line) { return text.substr(text.find(line), 90); };
  EXPECT_NE(at("weight: 2").find("# a.yaml:14\n    - path: b.bin"), std::string::npos) << text;
  EXPECT_NE(at("weight: 1").find("# default\n"), std::string::npos) << text;
}

TEST(Entries, PathsInThemAreMovedWithTheSpec) {
  KeyRow row = bind_entries<NamedSource>("data.sources", Type::list, LLMC_FIELD(data.validation_sets), members());
  Spec spec = read(list_table(), kList).spec;
  change_paths(row.key, spec, [](const std::string& own, const std::string& path) { return own + ":" + path; });
  EXPECT_EQ(sources_of(spec), "data.sources[0].path:a.bin 2, data.sources[1].path:b.bin 1");
}

TEST(Entries, AreDescribed) {
  const auto property = [](const Schema& schema, const char* name) {
    return nlohmann::json::parse(json_schema(schema))["properties"]["data"]["properties"][name];
  };
  const nlohmann::json list = property(list_table(), "sources"), map = property(map_table(true), "mixture");
  EXPECT_EQ(list["type"], "array");
  EXPECT_EQ(list["items"]["required"], nlohmann::json::array({"path"}));
  EXPECT_EQ(list["items"]["properties"]["weight"]["anyOf"][0]["exclusiveMinimum"], 0);
  EXPECT_EQ(list["items"]["properties"]["weight"]["description"], "How much of it.");
  EXPECT_EQ(list["items"]["additionalProperties"], false);
  const nlohmann::json named = map["patternProperties"]["^(?!(all)$)[A-Za-z][A-Za-z0-9_-]{0,31}$"];
  EXPECT_EQ(named["anyOf"][0]["type"], "string") << map;
  EXPECT_EQ(named["anyOf"][1]["required"], nlohmann::json::array({"path"}));
  EXPECT_NE(reference_markdown(list_table()).find("| `data.sources[N].weight` | a number above 0 | `1` |"),
            std::string::npos);
  EXPECT_NE(reference_markdown(list_table()).find("| `data.sources` | a list of maps |"), std::string::npos);
  EXPECT_NE(reference_markdown(map_table(false)).find("| `data.mixture.NAME.path` | a path | required |"),
            std::string::npos);
}

}  // namespace
}  // namespace llmc::spec

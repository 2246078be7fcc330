#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>

#include "compiler/cli/commands.h"
#include "compiler/cli/options.h"
#include "compiler/spec/codes.h"
#include "compiler/spec/documentation.h"
#include "compiler/spec/huggingface.h"
#include "spec/print.h"
#include "train/paths.h"

namespace llmc::cli {

namespace fs = std::filesystem;

namespace {

struct Options {
  SpecArguments spec;
  std::string code, from, out;
  bool json = false, markdown = false;
};

void add_spec(CLI::App* command, Options& options) {
  command->add_option("spec", options.spec.file, "the run's YAML file")->required();
  command->add_option("overrides", options.spec.overrides, "key.path=value");
}

int check(const Options& options) {
  const spec::LoadResult result = read_spec(options.spec);
  if (options.json)
    fmt::print("{}\n", spec::to_json(result.diagnostics));
  else if (!result.resolved)
    fmt::print(stderr, "{}", spec::render(result.diagnostics, colour_on(2)));
  if (!result.resolved) return static_cast<int>(Exit::spec);
  for (const std::string& note : result.notes) fmt::print(stderr, "note: {}\n", note);
  const plan::Plan plan = plan::make_plan(result.resolved->spec);
  note_vocabulary(*result.resolved);
  for (const MissingPath& missing : missing_paths(result.resolved->spec, result.resolved->directory))
    fmt::print(stderr, "warning: {}: no file matches '{}' here; a run needs it\n", missing.key, missing.path.string());
  if (!options.json) fmt::print("{}: good ({})\n", options.spec.file, plan.fingerprint);
  return 0;
}

/// A spec for the model whose config.json is `from`, or lies in the folder `from`; it takes that folder's name.
std::string import_model(const fs::path& from) {
  constexpr std::size_t kLimit = 1 << 20;
  std::error_code error;
  const fs::path path = fs::is_directory(from, error) ? from / "config.json" : from;
  const std::optional<std::string> text = spec::read_regular_file(path.string());
  if (!text) throw Failure(Exit::usage, "cannot read " + path.string() + "; give a model's folder or its config.json");
  if (text->size() > kLimit)
    throw Failure(Exit::spec, path.string() + " is larger than 1 MiB; a config.json is a few kB");
  return spec::from_huggingface(*text, fs::absolute(path).lexically_normal().parent_path().filename().string());
}

/// Writes a new file; an existing one is never replaced.
void write_new(const std::string& path, const std::string& text) {
  if (path.empty()) {
    fmt::print("{}", text);
    return;
  }
  if (access(path.c_str(), F_OK) == 0) throw Failure(Exit::usage, path + " exists; name another file with -o");
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.close();
  if (!out) throw Failure(Exit::usage, "cannot write " + path);
  fmt::print(stderr, "wrote {}\n", path);
}

}  // namespace

void add_spec_commands(CLI::App& app, Result& result) {
  auto options = std::make_shared<Options>();

  CLI::App* check_command = app.add_subcommand("check", "say everything that is wrong with a spec");
  add_spec(check_command, *options);
  check_command->add_flag("--json", options->json, "diagnostics as JSON on standard output");
  check_command->footer("Example: llmc check mine.yaml optimizer.lr=1e-4");
  check_command->callback([options, &result] { result.exit_code = check(*options); });

  CLI::App* config_command = app.add_subcommand("config", "the resolved spec, with the origin of every value");
  add_spec(config_command, *options);
  config_command->add_flag("--json", options->json, "every key with its value as JSON");
  config_command->footer("Example: llmc config specs/quickstart.yaml | less");
  config_command->callback([options] {
    const spec::Resolved resolved = load_spec(options->spec);
    fmt::print("{}", options->json ? spec::keys_json(resolved) + "\n" : spec::to_yaml(resolved, true));
  });

  CLI::App* schema_command = app.add_subcommand("schema", "JSON Schema (draft-07) of a spec, for editors");
  schema_command->add_flag("--markdown", options->markdown, "the manual's page of keys instead");
  schema_command->footer("Example: llmc schema > llmc.schema.json");
  schema_command->callback(
      [options] { fmt::print("{}", options->markdown ? spec::reference_markdown() : spec::json_schema() + "\n"); });

  CLI::App* explain_command =
      app.add_subcommand("explain", "what an error code means, with an example; without a code: all of them");
  explain_command->add_option("code", options->code, "such as E0301; without one: all codes with their titles");
  explain_command->footer("Example: llmc explain E0301");
  explain_command->callback([options] {
    const auto text = options->code.empty() ? spec::explain_all() : spec::explain(options->code);
    if (!text)
      throw Failure(Exit::usage, fmt::format("no error has the code {}; `llmc explain` lists all", options->code));
    fmt::print("{}", *text);
  });

  CLI::App* init_command = app.add_subcommand("init", "write a spec to begin with");
  init_command->add_option("--from", options->from, "folder of a Hugging Face model, or its config.json");
  init_command->add_option("-o,--out", options->out, "file to write (default: standard output)");
  init_command->footer("Example: llmc init --from Llama-3.2-1B -o llama.yaml");
  init_command->callback([options] {
    write_new(options->out, options->from.empty() ? spec::sample_spec() : import_model(options->from));
  });
}

}  // namespace llmc::cli

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "compiler/cli/commands.h"
#include "compiler/cli/specs.h"
#include "compiler/spec/codes.h"
#include "compiler/spec/documentation.h"
#include "compiler/spec/huggingface.h"
#include "compiler/tools/dataset/read_tokenizer.h"
#include "compiler/tools/report/length_report.h"
#include "data/order/forecast.h"
#include "data/tokenizer.h"
#include "files/disk.h"
#include "files/durable_file.h"
#include "spec/length/token_budget.h"
#include "spec/print.h"
#include "spec/schema/schema.h"
#include "spec/values.h"
#include "text/message.h"
#include "text/printable.h"
#include "text/shell.h"
#include "trainer/startup/inputs.h"
#include "trainer/startup/later_phases.h"
#include "trainer/startup/missing_paths.h"
#include "trainer/startup/saved_model.h"
#include "trainer/startup/weights.h"

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

/// Prints how long each source of a mixture lasts, if its shards are here. Throws Failure(data) if the run would pass
/// over one more often than its most_epochs.
void note_sources(const spec::Resolved& resolved, const std::vector<MissingPath>& missing, Said& said) {
  spec::Spec spec = resolved.spec;
  const auto absent = [](const MissingPath& path) { return path.key.starts_with("data.train."); };
  if (spec.data.mixture.empty() || std::ranges::any_of(missing, absent)) return;
  spec::resolve_paths(spec, resolved.directory);
  const Sources sources = open_sources(spec.data, 0);
  const std::int64_t length = spec.batch.sequence_length;
  for (const Source& source : sources) Samples(source.shards, length);  // throws on data without a complete sample
  // Of a phase its own steps, as if the source began with them; check_phases() adds up those of all.
  const RunLength run{0, spec.own_steps(), spec.batch.tokens / length, length};
  for (const SourceForecast& of : forecast(sources, beginning(sources), run))
    said.once(fmt::format("note: {}data.train.{}",
                          spec.phase.count > 1 ? fmt::format("phase {} alone: ", spec.phase.number) : "",
                          forecast_text(of)));
  if (spec.phase.count == 1) check_most_epochs(sources, beginning(sources), run);
}

/// Warns of files that training and validation data share, or two sources, and of sources that are never drawn, if all
/// data is here.
void warn_of_doubtful_data(const spec::Resolved& resolved, const std::vector<MissingPath>& missing, Said& said) {
  const auto absent = [](const MissingPath& path) {
    return path.key.starts_with("data.train") || path.key.starts_with("data.validation");
  };
  if (std::ranges::any_of(missing, absent)) return;
  spec::Spec spec = resolved.spec;
  spec::resolve_paths(spec, resolved.directory);
  try {
    for (const std::string& line : doubtful_data(spec)) said.once("warning: " + printable_text(line));
  } catch (const Failure&) {  // damaged data is no mistake of the spec; the trainer refuses it
  }
}

/// Throws Failure(data) if the phases together pass over a source more often than its most_epochs. Their data is
/// checked as far as it is here.
void check_phases(const std::vector<spec::Resolved>& phases) {
  std::vector<PhaseAhead> ahead;
  for (const spec::Resolved& phase : phases) {
    spec::Spec spec = phase.spec;
    spec::resolve_paths(spec, phase.directory);
    const auto absent = [](const MissingPath& path) { return path.key.starts_with("data.train"); };
    if (std::ranges::any_of(missing_paths(spec, {}), absent)) break;
    ahead.push_back({spec, open_sources(spec.data, 0), spec.phase.last});
  }
  check_epochs_ahead(std::move(ahead), {}, 0);
}

/// Plans a spec, or a phase of it, and reports what is missing on this machine.
void check_one(const Options& options, const spec::Resolved& resolved, Said& said) {
  const plan::Plan plan = plan::make_plan(from_here(resolved.spec, resolved.directory));
  note_vocabulary(resolved, said);
  warn_of_export(resolved.spec.model, said);
  const std::vector<MissingPath> missing_here = missing_paths(resolved.spec, resolved.directory);
  for (const MissingPath& missing : missing_here)
    said.once(fmt::format("warning: {}: a run needs it, but no file matches '{}' here{}", missing.key,
                          printable(missing.path.string()), missing.hint));
  note_sources(resolved, missing_here, said);
  warn_of_doubtful_data(resolved, missing_here, said);
  if (const std::string& from = resolved.spec.init.from; !from.empty()) {
    const fs::path folder = (fs::path(resolved.directory) / from).lexically_normal();
    std::error_code error;
    if (fs::exists(folder, error))
      find_weights(folder, resolved.spec, {});
    else
      said.once(fmt::format("warning: init.from: a new run needs it, but there is no folder '{}' here",
                            printable(folder.string())));
  }
  if (options.json) return;
  const spec::Phase& phase = resolved.spec.phase;
  const std::string which = phase.count > 1 ? fmt::format(" phase {}, up to step {}:", phase.number, phase.last) : "";
  fmt::print("{}:{} good ({})\n", printable(options.spec.file), which, plan.fingerprint);
}

int check(const Options& options) {
  spec::LoadResult result = read_spec(options.spec);
  if (options.json)
    fmt::print("{}\n", spec::to_json(result.diagnostics));
  else if (!result.diagnostics.empty())
    to_stderr("{}", spec::render(result.diagnostics, colour_on(2)));
  if (!result.diagnostics.empty()) return static_cast<int>(Exit::spec);
  for (const std::string& note : result.notes) to_stderr("note: {}\n", printable_text(note));
  if (result.resolved) result.phases.push_back(std::move(*result.resolved));
  Said said;
  for (const spec::Resolved& phase : result.phases) check_one(options, phase, said);
  if (result.phases.size() > 1) check_phases(result.phases);
  if (!options.json)
    fmt::print("{}; the compute-optimal number is about {:.0f} (Hoffmann et al. 2022)\n",
               report::tokens_text(result.phases.front().spec), spec::kOptimalTokensPerParameter);
  return 0;
}

/// Rewrites `path`, relative to the current folder, for a spec at `spec` (in the current folder if that is empty).
std::string seen_from(const std::string& spec, const fs::path& path) {
  const fs::path folder = disk::absolute(spec.empty() ? "spec.yaml" : spec, Exit::usage).parent_path();
  return disk::weakly_canonical(path, Exit::usage)
      .lexically_relative(disk::weakly_canonical(folder, Exit::usage))
      .string();
}

/// A spec to write, and the command, from the current folder, that builds its data (empty: none). `script`: arguments
/// of tokens/hf_to_shards.py, if it is needed.
struct NewSpec {
  std::string text, command, script = {};
};

/// Returns a sample spec, named after the file `out`.
NewSpec sample(const std::string& out) {
  const std::string own = spec::run_name(fs::path(out).stem().string()), name = own.empty() ? "my-run" : own;
  const std::string data = "data/" + name;
  const std::string command = fmt::format("llmc data build --from FOLDER --vocab-size 4096 -o {}", data);
  return {spec::sample_spec(name, {seen_from(out, data), command}), command};
}

/// Whether samples can be decoded with the file.
bool decodes(const fs::path& tokenizer_json) {
  try {
    return Tokenizer(tokenizer_json).vocab_size() > 0;
  } catch (const Failure&) {
    return false;
  }
}

/// Prints why a tokenizer in the folder is not accepted.
void note_tokenizers(const fs::path& folder) {
  for (const char* name : {"tokenizer.model", "tokenizer.json"}) try {
      std::error_code error;
      if (fs::is_regular_file(folder / name, error)) Tokenizer{folder / name};
    } catch (const Failure& failure) {
      to_stderr("note: {}\n", spec::printable(failure.what()));
    }
}

/// Returns advice for a missing `from`, which may name a model on Hugging Face's hub: ORG/NAME, alone or in a URL.
std::string how_to_fetch(std::string from) {
  for (const std::string_view site : {"https://", "http://", "hf://", "hf.co/", "huggingface.co/"})
    if (from.starts_with(site)) from.erase(0, site.size());
  while (from.ends_with('/')) from.pop_back();
  const auto part = [](const std::string& word) {
    return !word.empty() && word[0] != '.' && word[0] != '~' &&
           word.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._") ==
               std::string::npos;
  };
  const std::size_t slash = from.find('/');
  const std::string name = slash == std::string::npos ? "" : from.substr(slash + 1);
  if (slash == std::string::npos || !part(from.substr(0, slash)) || !part(name) || name.ends_with(".json"))
    return "Give a model's folder or its config.json";
  return fmt::format(
      "llmc downloads nothing. If {0} is a model on the Hugging Face Hub, fetch it first:\n  hf download {0} "
      "--local-dir {1}\n  llmc init --from {1}",
      from, name);
}

/// Makes a spec for the model whose config.json is `from`, or is in the folder `from`; the spec has the folder's name.
NewSpec import_model(const fs::path& from, const std::string& out) {
  constexpr std::size_t kLimit = 1 << 20;
  std::error_code error;
  const fs::path path = fs::is_directory(from, error) ? from / "config.json" : from;
  const std::optional<std::string> text = spec::read_regular_file(path.string());
  if (!text)
    throw Failure(Exit::usage, fmt::format("cannot read {}. {}", path.string(),
                                           fs::exists(from, error) ? "Give a model's folder or its config.json"
                                                                   : how_to_fetch(from.string())));
  if (path.extension() == ".yaml" || path.extension() == ".yml")
    throw Failure(Exit::spec, fmt::format("{} is not a model: --from takes a model's folder or its config.json. A "
                                          "spec that begins with another one has the key extends",
                                          path.string()));
  if (text->size() > kLimit)
    throw Failure(
        Exit::spec,
        path.string() + " is larger than 1 MiB, but a config.json has a few kB. Name the model's config.json");
  const std::string name = disk::absolute(path, Exit::usage).lexically_normal().parent_path().filename().string();
  const fs::path data = fs::path("data") / spec::run_name(name);
  std::string command, tokenizer;
  const fs::path folder = path.has_parent_path() ? path.parent_path() : ".";
  note_tokenizers(folder);
  const bool model = data::builds_data(folder / "tokenizer.model"),
             json = !model && data::builds_data(folder / "tokenizer.json");
  if (!model && !json && decodes(folder / "tokenizer.json")) tokenizer = seen_from(out, folder / "tokenizer.json");
  if (model || json)
    command =
        fmt::format("llmc data build --from FOLDER --tokenizer {} -o {}",
                    shell_word(spec::printable((json ? folder / "tokenizer.json" : folder).string())), data.string());
  // A config.json alone is a model without its weights.
  const bool whole = fs::is_directory(from, error), weights = whole && has_safetensors(from);
  if (whole) check_complete(from);
  const UnreadWeights unread = whole ? unread_weights(from) : UnreadWeights{};
  const spec::ImportedSpec imported = spec::from_huggingface(
      *text, name,
      {seen_from(out, data), command, tokenizer, weights ? seen_from(out, from) : "", spec::printable(unread.file),
       spec::printable(path.filename().string()), json ? "tokenizer.json" : "tokenizer.model"});
  for (const std::string& note : imported.notes) to_stderr("note: {}\n", note);
  NewSpec made{imported.text, command,
               tokenizer.empty()
                   ? ""
                   : fmt::format("tokens/hf_to_shards.py --tokenizer {} -o {} FILES",
                                 shell_word(spec::printable((folder / "tokenizer.json").string())), data.string())};
  if (!unread.file.empty())
    to_stderr(
        "note: the weights in {} are not used, because {}, so a run of this spec starts from random weights. Before "
        "you rerun llmc init to start from these, {}\n",
        spec::printable((from / unread.file).string()), unread.why, unread.advice);
  return made;
}

/// Writes a new file and prints the next commands; never replaces an existing file.
void write_new(const std::string& path, const NewSpec& made) {
  if (path.empty()) {
    fmt::print("{}", made.text);
    return;
  }
  if (access(path.c_str(), F_OK) == 0)
    throw Failure(Exit::usage, printable(path) + " exists. Name another file with -o");
  write_file_atomically(path, made.text, {Exit::usage, "-o"});
  to_stderr("wrote {}\n", printable(path));
  if (!made.command.empty())
    to_stderr("next, with your text in FOLDER:\n  {}\n  llmc run {}\n", made.command, shell_word(path));
  else if (!made.script.empty())
    to_stderr(
        "next, with Parquet or .jsonl of your text in FILES (docs/how-to/data-from-hugging-face.md):\n  {}\n  llmc run "
        "{}\n",
        made.script, shell_word(path));
  else
    to_stderr(
        "next, with shards of its tokens in data.train.path (docs/how-to/data-from-hugging-face.md):\n  llmc run {}\n",
        shell_word(path));
}

/// Prints a spec, or each of its phases: as YAML documents in a row, or as one JSON list.
void print_config(const std::vector<spec::Resolved>& phases, bool json) {
  if (phases.size() == 1) {
    fmt::print("{}", json ? spec::keys_json(phases[0]) + "\n" : spec::to_yaml(phases[0], true));
    return;
  }
  auto list = nlohmann::ordered_json::array();
  for (const spec::Resolved& resolved : phases) {
    const spec::Phase& phase = resolved.spec.phase;
    if (json)
      list.push_back({{"phase", phase.number},
                      {"until", phase.last},
                      {"keys", nlohmann::ordered_json::parse(spec::keys_json(resolved))}});
    else
      fmt::print("{}# phase {} of {}, up to step {}{}\n{}", phase.number > 1 ? "---\n" : "", phase.number, phase.count,
                 phase.last, phase.changed.empty() ? "" : fmt::format("; changes {}", fmt::join(phase.changed, ", ")),
                 spec::to_yaml(resolved, true));
  }
  if (json) fmt::print("{}\n", list.dump(2));
}

/// Returns "Did you mean E0301? " for E301, 301 and the like; empty: no code is meant.
std::string code_meant(const std::string& code) {
  const std::string digits = code.substr(std::min(code.find_first_not_of("eE0"), code.size()));
  const std::string full = fmt::format("E{:0>4}", digits);
  return spec::explain(full) ? fmt::format("Did you mean {}? ", full) : "";
}

}  // namespace

void add_spec_commands(CLI::App& app, Result& result) {
  auto options = std::make_shared<Options>();

  CLI::App* check_command = app.add_subcommand("check", "report all errors of a spec");
  add_spec(check_command, *options);
  check_command->add_flag("--json", options->json, "print the diagnostics as JSON on standard output");
  check_command->footer("Example: llmc check mine.yaml optimizer.lr=1e-4");
  check_command->callback([options, &result] { result.exit_code = check(*options); });

  CLI::App* config_command = app.add_subcommand("config", "print the resolved spec, with the origin of every value");
  add_spec(config_command, *options);
  config_command->add_flag("--json", options->json, "print every key with its value as JSON");
  config_command->footer("Example: llmc config specs/quickstart.yaml | less");
  config_command->callback([options] { print_config(load_phases(options->spec), options->json); });

  CLI::App* schema_command = app.add_subcommand("schema", "print the JSON Schema (draft-07) of a spec, for editors");
  schema_command->add_flag("--markdown", options->markdown, "print the manual's page of keys instead");
  schema_command->footer("Example: llmc schema > llmc.schema.json");
  schema_command->callback(
      [options] { fmt::print("{}", options->markdown ? spec::reference_markdown() : spec::json_schema() + "\n"); });

  CLI::App* explain_command =
      app.add_subcommand("explain", "explain an error code with an example; without a code: list all codes");
  explain_command->add_option("code", options->code, "a code such as E0301; without one: all codes with their titles");
  explain_command->footer("Example: llmc explain E0301");
  explain_command->callback([options] {
    const auto text = options->code.empty() ? spec::explain_all() : spec::explain(options->code);
    if (!text)
      throw Failure(Exit::usage, fmt::format("no error has the code {}. {}`llmc explain` lists all codes",
                                             options->code, code_meant(options->code)));
    fmt::print("{}", *text);
  });

  CLI::App* init_command = app.add_subcommand("init", "write a spec to start from, and print the next commands");
  init_command->add_option("--from", options->from, "folder of a Hugging Face model, or its config.json");
  init_command->add_option("-o,--out", options->out,
                           "new file to write; the run gets its name (default: standard output)");
  init_command->footer(
      "Example: llmc init -o specs/mine.yaml\nExample: llmc init --from Llama-3.2-1B -o specs/llama.yaml");
  init_command->callback([options] {
    write_new(options->out, options->from.empty() ? sample(options->out) : import_model(options->from, options->out));
  });
}

}  // namespace llmc::cli

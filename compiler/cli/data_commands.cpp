#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>

#include "compiler/cli/commands.h"
#include "compiler/tools/dataset/builder.h"
#include "compiler/tools/dataset/info.h"
#include "compiler/tools/dataset/slow_lines.h"
#include "compiler/tools/report/plan_report.h"
#include "spec/scalars.h"
#include "spec/schema/schema.h"
#include "spec/source.h"
#include "text/message.h"
#include "text/plural.h"

namespace llmc::cli {

namespace {

/// Interval of progress lines in a log or a pipe, where a line cannot be rewritten.
constexpr std::chrono::seconds kBetweenLines{5};

struct InfoOptions {
  std::string file, format = "auto";
  std::int64_t sequence_length = 0;
  bool json = false;
};

std::string progress_line(const data::BuildProgress& progress) {
  static constexpr const char* kStages[] = {"reading", "training the tokenizer", "encoding"};
  std::string line = kStages[static_cast<int>(progress.stage)];
  if (progress.stage == data::BuildStage::training_tokenizer)
    line += " on at most " + report::human_bytes(static_cast<double>(progress.total_bytes)) + " of the text";
  else if (progress.total_bytes)
    line += fmt::format(" {} of {}", report::human_bytes(static_cast<double>(progress.bytes)),
                        report::human_bytes(static_cast<double>(progress.total_bytes)));
  else if (progress.bytes)
    line += " " + report::human_bytes(static_cast<double>(progress.bytes));
  return line;
}

void show_on_terminal(const std::string& line) {
  to_stderr("\r\033[K{}", line);
  std::fflush(stderr);
}

/// Counts documents of the text. If a single document was cut in two, both splits contain it.
std::int64_t document_count(const data::BuildResult& result) {
  const std::int64_t train = result.train.documents, held = result.validation.documents;
  return result.single_document_cut ? std::max(train, held) : train + held;
}

/// Accepts whole numbers in a spec's notation: 32K, 100M.
void allow_suffix(CLI::Option* option) {
  option->transform([](const std::string& text) {
    const spec::ParsedScalar<std::int64_t> number = spec::parse_integer(text);
    if (number.value) return fmt::format("{}", *number.value);
    throw CLI::ValidationError(fmt::format("the number {} {}{}", spec::in_quotes(text), number.problem,
                                           number.instead.empty() ? "" : "; write " + number.instead));
  });
}

void print_result(const data::BuildResult& result, const std::filesystem::path& out) {
  using data::grouped;
  const std::int64_t documents = document_count(result);
  const std::string lines =
      result.skipped_lines ? fmt::format(", and {} line{}", grouped(result.skipped_lines), plural(result.skipped_lines))
                           : "";
  fmt::print("{}: {} document{} from {} file{} ({} skipped{}), {:.2f} bytes a token, vocabulary {}\n", out.string(),
             grouped(documents), plural(documents), grouped(result.files), plural(result.files),
             grouped(result.skipped_files), lines, result.bytes_per_token(), grouped(result.vocab_size));
  for (const auto& [name, side] : {std::pair("train", &result.train), {"validation", &result.validation}}) {
    const auto shards = static_cast<std::int64_t>(side->shards.size());
    fmt::print("  {:<11} {:>15} tokens in {} shard{}\n", name, grouped(side->tokens), grouped(shards), plural(shards));
  }
  if (!result.passed_over.empty())
    fmt::print("  {}; to include them use --glob\n", spec::printable(data::passed_over_text(result.passed_over)));
}

/// Prints results that differ from the request.
void print_notes(const data::BuildResult& result, const data::DatasetOptions& options) {
  constexpr std::size_t kShown = 10;
  if (result.vocab_size < options.vocab_size)
    to_stderr(
        "note: the vocabulary has only {} tokens, not the {} of --vocab-size, because the text has too few different "
        "words\n",
        data::grouped(result.vocab_size), data::grouped(options.vocab_size));
  if (!result.byte_exact)
    to_stderr("note: this tokenizer is not byte-exact: {} of {} documents {} different text\n",
              data::grouped(result.changed_documents),
              data::grouped(result.train.documents + result.validation.documents),
              result.changed_documents == 1 ? "decodes to" : "decode to");
  if (result.single_document_cut) to_stderr("note: there is one document, so its end is the validation set\n");
  const auto train = static_cast<double>(result.train.tokens), held = static_cast<double>(result.validation.tokens);
  const double part = held / std::max(1.0, train + held);
  if (!result.single_document_cut && (part > 3 * options.validation || part < options.validation / 3))
    to_stderr(
        "note: {:.1f} % of the tokens are held out, not {:.1f} %, because documents are not split and these are few or "
        "differ in size. Try another --seed\n",
        100 * part, 100 * options.validation);
  for (std::size_t i = 0; i < std::min(kShown, result.skipped.size()); ++i)
    to_stderr("skipped {}: {}\n", spec::printable(result.skipped[i].where), spec::printable(result.skipped[i].why));
  const std::int64_t skipped = result.skipped_files + result.skipped_lines;
  if (skipped > static_cast<std::int64_t>(kShown))
    to_stderr("skipped {} more\n", data::grouped(skipped - static_cast<std::int64_t>(kShown)));
}

}  // namespace

void add_data_commands(CLI::App& app, Result&) {
  CLI::App* data_command = app.add_subcommand("data", "make and inspect token shards");
  data_command->footer("`llmc data build --help` and `llmc data info --help` have examples.");
  data_command->require_subcommand(1);

  auto options = std::make_shared<data::DatasetOptions>();
  auto json = std::make_shared<bool>(false);
  CLI::App* build_command = data_command->add_subcommand(
      "build", "make a tokenizer and token shards from text; needs --vocab-size or --tokenizer");
  build_command
      ->add_option("--from", options->from,
                   "files and directories of text, source code, or .jsonl with a field of text")
      ->required();
  build_command->add_option("--glob", options->globs, "only files whose name matches, such as '*.py'; may be repeated");
  build_command
      ->add_option("--text-field", options->text_field, "the field that holds the text of a line of a .jsonl file")
      ->capture_default_str();
  CLI::Option* vocab_size = build_command->add_option("--vocab-size", options->vocab_size,
                                                      "train a tokenizer of this many tokens, 320 to 1000000");
  build_command->add_option(
      "--tokenizer", options->tokenizer,
      "use this sentencepiece model, or the one in the folder of a data set, instead of training one");
  build_command->add_option("-o,--out", options->out, "folder to make")->required();
  build_command->add_option("--validation", options->validation, "fraction of the documents that is held out, 0 to 0.5")
      ->capture_default_str();
  CLI::Option* shard_tokens =
      build_command->add_option("--shard-tokens", options->shard_tokens, "maximum tokens of one file")
          ->capture_default_str();
  CLI::Option* sample_bytes =
      build_command->add_option("--sample-bytes", options->sample_bytes,
                                "bytes of text to train the tokenizer on (0: chosen by the vocabulary's size)");
  for (CLI::Option* number : {vocab_size, shard_tokens, sample_bytes}) allow_suffix(number);
  build_command->add_option("--seed", options->seed, "seed of the sample and the split")->capture_default_str();
  build_command->add_flag("--force", options->force, "replace an existing data set");
  build_command->add_flag("--json", *json, "print dataset.json on standard output");
  build_command->footer(
      "Example: llmc data build --from /usr/lib/python3.11 --glob '*.py' --vocab-size 4096 -o data/python\n"
      "Example: llmc data build --from more --tokenizer data/python -o data/more");
  build_command->callback([options, json] {
    const bool terminal = isatty(2);
    std::optional<data::SlowLines> lines;
    const auto begin = std::chrono::steady_clock::now();
    if (!terminal)
      lines.emplace(kBetweenLines, [begin](const std::string& line) {
        const std::chrono::duration<double> since = std::chrono::steady_clock::now() - begin;
        to_stderr("{}, {:.0f} s so far\n", line, since.count());
      });
    options->progress = [&](const data::BuildProgress& progress) {
      terminal ? show_on_terminal(progress_line(progress)) : lines->set(progress_line(progress));
    };
    const data::BuildResult result = data::build_dataset(*options);
    lines.reset();
    if (terminal) to_stderr("\r\033[K");
    print_notes(result, *options);
    if (*json)
      fmt::print("{}\n", data::dataset_json(result, *options));
    else
      print_result(result, options->out);
  });

  auto info = std::make_shared<InfoOptions>();
  CLI::App* info_command = data_command->add_subcommand("info", "format, tokens and samples of shards");
  info_command->add_option("file", info->file, "a shard, a pattern with * and ?, or a data set's folder")->required();
  info_command
      ->add_option("--format", info->format, "nanogpt (uint16) and nanogpt32 (uint32) have no header and must be named")
      ->check(CLI::IsMember(spec::find_key("data.train.format")->words))
      ->capture_default_str();
  info_command->add_option("--sequence-length", info->sequence_length, "count the samples of this length")
      ->type_name("N")
      ->check(CLI::Range(1, 1 << 20));
  info_command->add_flag("--json", info->json, "as JSON");
  info_command->footer("Example: llmc data info data/python --sequence-length 256");
  info_command->callback([info] {
    const data::DataInfo found = data::describe(info->file, info->format, info->sequence_length);
    if (!found.warning.empty()) to_stderr("warning: {}\n", spec::printable(found.warning));
    fmt::print("{}", info->json ? data::as_json(found) + "\n" : data::as_text(found));
  });
}

}  // namespace llmc::cli

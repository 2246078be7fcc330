#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <utility>

#include "compiler/cli/commands.h"
#include "compiler/tools/dataset/builder.h"
#include "compiler/tools/dataset/info.h"
#include "compiler/tools/dataset/look.h"
#include "compiler/tools/dataset/slow_lines.h"
#include "compiler/tools/dataset/time_left.h"
#include "compiler/tools/dataset/verify.h"
#include "compiler/tools/report/plan_report.h"
#include "error.h"
#include "spec/scalars.h"
#include "spec/schema/schema.h"
#include "spec/source.h"
#include "text/console.h"
#include "text/message.h"
#include "text/plural.h"
#include "text/printable.h"

namespace llmc::cli {

namespace {

/// Intervals of progress lines: in a log or a pipe, where a line cannot be rewritten, and on a terminal.
constexpr std::chrono::milliseconds kBetweenLines{5000}, kBetweenRewrites{100};

struct InfoOptions {
  std::string file, format = "auto";
  std::int64_t sequence_length = 0;
  bool json = false;
};

/// `seconds`: since the stage began.
std::string progress_line(const data::BuildProgress& progress, double seconds) {
  static constexpr const char* kStages[] = {"reading", "training the tokenizer", "encoding"};
  std::string line = kStages[static_cast<int>(progress.stage)];
  if (progress.stage == data::BuildStage::training_tokenizer)
    line += " on at most " + report::human_bytes(static_cast<double>(progress.total_bytes)) + " of the text";
  else if (progress.total_bytes)
    line += fmt::format(" {} of {}", report::human_bytes(static_cast<double>(progress.bytes)),
                        report::human_bytes(static_cast<double>(progress.total_bytes))) +
            data::time_left(seconds, progress.bytes, progress.total_bytes);
  else if (progress.bytes)
    line += " " + report::human_bytes(static_cast<double>(progress.bytes));
  return line;
}

void show_on_terminal(const std::string& line) {
  to_stderr("\r\033[K{}", line);
  std::fflush(stderr);
}

/// Shows the newest progress of a build: a line that is rewritten on a terminal, and removed at the end or by an error;
/// otherwise a line every few seconds.
class ProgressLine {
 public:
  ProgressLine() {
    lines_.emplace(terminal_ ? kBetweenRewrites : kBetweenLines, [this](const std::string& line) {
      if (terminal_) return show_on_terminal(line);
      to_stderr("{}, {:.0f} s so far\n", line, std::chrono::duration<double>(Clock::now() - begin_).count());
    });
  }
  ~ProgressLine() {
    lines_.reset();
    if (terminal_) show_on_terminal("");
  }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void set(const data::BuildProgress& progress) {
    const Clock::time_point now = Clock::now();
    if (std::exchange(stage_, progress.stage) != progress.stage) stage_begin_ = now;
    lines_->set(progress_line(progress, std::chrono::duration<double>(now - stage_begin_).count()));
  }

 private:
  using Clock = std::chrono::steady_clock;

  const bool terminal_ = isatty(2);
  const Clock::time_point begin_ = Clock::now();
  data::BuildStage stage_ = data::BuildStage::reading;
  Clock::time_point stage_begin_ = begin_;
  std::optional<data::SlowLines> lines_;
};

/// Counts documents of the text. If a single document was cut in two, both splits contain it.
std::int64_t document_count(const data::BuildResult& result) {
  const std::int64_t train = result.train.documents, held = result.validation.documents;
  return result.single_document_cut ? std::max(train, held) : train + held;
}

/// Accepts whole numbers in a spec's notation: 32K, 100M.
void allow_suffix(CLI::Option* option) {
  option->type_name("NUMBER")->transform([](const std::string& text) {
    const spec::ParsedScalar<std::int64_t> number = spec::parse_integer(text);
    if (number.value) return fmt::format("{}", *number.value);
    throw CLI::ValidationError(fmt::format("the number {} {}{}", spec::in_quotes(text), number.problem,
                                           number.instead.empty() ? "" : "; write " + number.instead));
  });
}

void print_result(const data::BuildResult& result, const std::filesystem::path& out) {
  const std::int64_t documents = document_count(result);
  const std::string lines = result.skipped_lines ? fmt::format(", and {} line{}", format_count(result.skipped_lines),
                                                               plural(result.skipped_lines))
                                                 : "";
  fmt::print("{}: {} document{} from {} file{} ({} skipped{}), {:.2f} bytes a token, vocabulary {}\n",
             spec::printable(out.string()), format_count(documents), plural(documents), format_count(result.files),
             plural(result.files), format_count(result.skipped_files), lines, result.bytes_per_token(),
             format_count(result.vocab_size));
  for (const auto& [name, side] : {std::pair("train", &result.train), {"validation", &result.validation}}) {
    const auto shards = static_cast<std::int64_t>(side->shards.size());
    fmt::print("  {:<11} {:>15} tokens in {} shard{}\n", name, format_count(side->tokens), format_count(shards),
               plural(shards));
  }
  if (result.continued_shards)
    fmt::print("  {} shard{} of a build that was killed kept\n", format_count(result.continued_shards),
               plural(result.continued_shards));
  if (result.duplicates)
    fmt::print("  {} duplicate document{} left out\n", format_count(result.duplicates), plural(result.duplicates));
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
        format_count(result.vocab_size), format_count(options.vocab_size));
  if (!result.byte_exact)
    to_stderr("note: this tokenizer does not restore every text; it changes {} of these {} documents\n",
              result.changed_documents ? format_count(result.changed_documents) : "none",
              format_count(result.train.documents + result.validation.documents));
  if (!result.linked_directories.empty())
    to_stderr("note: {}\n", spec::printable(data::linked_text(result.linked_directories)));
  const auto train = static_cast<double>(result.train.tokens), held = static_cast<double>(result.validation.tokens);
  const double part = held / std::max(1.0, train + held);
  const bool skewed = part > 3 * options.validation || part < options.validation / 3;
  if (result.single_document_cut && held > 0)
    to_stderr(
        "note: there is one document, so its end is the validation set{}\n",
        skewed ? fmt::format(": {:.1f} % of the tokens, not {:.1f} %", 100 * part, 100 * options.validation) : "");
  if (!result.single_document_cut && skewed)
    to_stderr(
        "note: {:.1f} % of the tokens are held out, not {:.1f} %, because documents are not split and these are few or "
        "differ in size. Try another --seed\n",
        100 * part, 100 * options.validation);
  for (std::size_t i = 0; i < std::min(kShown, result.skipped.size()); ++i)
    to_stderr("skipped {}: {}\n", spec::printable(result.skipped[i].where), spec::printable(result.skipped[i].why));
  const std::int64_t skipped = result.skipped_files + result.skipped_lines;
  if (skipped > static_cast<std::int64_t>(kShown))
    to_stderr("skipped {} more\n", format_count(skipped - static_cast<std::int64_t>(kShown)));
}

void add_build(CLI::App* data_command) {
  auto options = std::make_shared<data::DatasetOptions>();
  auto json = std::make_shared<bool>(false);
  CLI::App* build_command = data_command->add_subcommand(
      "build", "make a tokenizer and token shards from text; needs --vocab-size or --tokenizer");
  build_command
      ->add_option("--from", options->from,
                   "files and directories of text, source code, or .jsonl with a field of text, also as .gz or .zst; "
                   "- for JSON lines from standard input")
      ->required();
  build_command->add_option("--glob", options->globs, "only files whose name matches, such as '*.py'; may be repeated");
  build_command
      ->add_option("--text-field", options->text_field, "the field that holds the text of a line of a .jsonl file")
      ->capture_default_str();
  CLI::Option* vocab_size = build_command->add_option("--vocab-size", options->vocab_size,
                                                      "train a tokenizer of this many tokens, 320 to 1000000");
  build_command
      ->add_option_function<std::string>(
          "--train-tokenizer", [options](const std::string&) { options->tokenizer_json = true; },
          "kind of the trained tokenizer; also write it as a tokenizer.json, which transformers reads")
      ->type_name("bpe")
      ->check(CLI::IsMember({"bpe"}));
  build_command->add_option(
      "--tokenizer", options->tokenizer,
      "use this sentencepiece model or tokenizer.json, or the one in a folder, instead of training one");
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
  build_command->add_flag("--deduplicate", options->deduplicate, "leave out documents equal to an earlier one");
  build_command->add_flag("--force", options->force, "replace an existing data set");
  build_command->add_flag("--json", *json, "print dataset.json on standard output");
  build_command->footer(
      "Example: llmc data build --from /usr/lib/python3.1? --glob '*.py' --vocab-size 4096 -o data/python\n"
      "Example: llmc data build --from more --tokenizer data/python -o data/more\n"
      "Example: curl -s URL | llmc data build --from - --deduplicate --vocab-size 32K -o data/web");
  build_command->callback([options, json] {
    std::optional<ProgressLine> shown(std::in_place);
    options->progress = [&](const data::BuildProgress& progress) { shown->set(progress); };
    const data::BuildResult result = data::build_dataset(*options);
    shown.reset();
    print_notes(result, *options);
    if (*json)
      fmt::print("{}\n", data::dataset_json(result, *options));
    else
      print_result(result, options->out);
  });
}

void add_format(CLI::App* command, std::string& format) {
  command->add_option("--format", format, "nanogpt (uint16) and nanogpt32 (uint32) have no header and must be named")
      ->check(CLI::IsMember(spec::find_key("data.train.format")->words))
      ->capture_default_str();
}

void add_sequence_length(CLI::App* command, std::int64_t& length, const char* meaning) {
  command->add_option("--sequence-length", length, meaning)->type_name("N")->check(CLI::Range(1, 1 << 20));
}

void add_info(CLI::App* data_command) {
  auto info = std::make_shared<InfoOptions>();
  CLI::App* info_command = data_command->add_subcommand("info", "format, tokens, samples and documents of shards");
  info_command->add_option("file", info->file, "a shard, a pattern with * and ?, or a data set's folder")->required();
  add_format(info_command, info->format);
  add_sequence_length(info_command, info->sequence_length, "count the samples of this length");
  info_command->add_flag("--json", info->json, "as JSON");
  info_command->footer("Example: llmc data info data/python --sequence-length 256");
  info_command->callback([info] {
    const data::DataInfo found = data::describe(info->file, info->format, info->sequence_length);
    if (!found.warning.empty()) to_stderr("warning: {}\n", spec::printable(found.warning));
    fmt::print("{}", info->json ? data::as_json(found) + "\n" : printable_text(data::as_text(found)));
  });
}

void add_look(CLI::App* data_command) {
  auto options = std::make_shared<data::LookOptions>();
  auto json = std::make_shared<bool>(false);
  CLI::App* command = data_command->add_subcommand("look", "a sample of shards as text with the borders of its tokens");
  command->add_option("file", options->file, "a shard, a pattern with * and ?, or a data set's folder")->required();
  command->add_option("--sample", options->sample, "number of the sample in the order of the files, from 0")
      ->type_name("N")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 62))
      ->capture_default_str();
  add_sequence_length(command, options->sequence_length, "tokens of a sample: batch.sequence_length of the run");
  command->add_flag("--validation", options->validation, "of a folder: its validation shards");
  add_format(command, options->format);
  command->add_option("--tokenizer", options->tokenizer,
                      "a sentencepiece model, a tokenizer.json, or a folder with one (default: the one of the shards)");
  command->add_flag("--json", *json, "as JSON");
  command->footer("Example: llmc data look data/python --sample 7 --sequence-length 64");
  command->callback([options, json] {
    const data::Look look = data::look(*options);
    fmt::print("{}", *json ? data::look_json(look) : data::look_text(look));
  });
}

void add_verify(CLI::App* data_command, Result& result) {
  auto folders = std::make_shared<std::vector<std::string>>();
  auto json = std::make_shared<bool>(false);
  CLI::App* command = data_command->add_subcommand("verify", "read data sets in full and report damage");
  command->add_option("folders", *folders, "folders of data sets")->required();
  command->add_flag("--json", *json, "as JSON");
  command->footer(
      "Exit code 0: all are complete; 5: one is damaged.\n"
      "Example: llmc data verify data/python");
  command->callback([folders, json, &result] {
    std::vector<data::DatasetVerdict> verdicts;
    for (const std::string& folder : *folders) {
      verdicts.push_back(data::verify_dataset(folder));
      const data::DatasetVerdict& verdict = verdicts.back();
      if (!verdict.damage.empty()) result.exit_code = static_cast<int>(Exit::data);
      for (const std::string& name : verdict.unlisted)
        to_stderr("note: {} in '{}' is not in its dataset.json\n", spec::in_quotes(name), spec::printable(folder));
      if (!*json) fmt::print("{}", printable_text(data::verdict_text(verdict)));
      std::fflush(stdout);  // the next one may take minutes
    }
    if (*json) fmt::print("{}", data::verdicts_json(verdicts));
  });
}

}  // namespace

void add_data_commands(CLI::App& app, Result& result) {
  CLI::App* data_command = app.add_subcommand("data", "make, verify and inspect token shards");
  data_command->footer("`llmc data build --help` and so on have examples.");
  data_command->require_subcommand(1);
  add_build(data_command);
  add_info(data_command);
  add_look(data_command);
  add_verify(data_command, result);
}

}  // namespace llmc::cli

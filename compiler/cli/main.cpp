// Compiles a description of one model and one training run into a trainer for exactly that run.

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <new>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/cli/commands.h"
#include "compiler/cli/specs.h"
#include "device/cpu/wait_policy.h"
#include "error.h"
#include "host/standard_streams.h"
#include "host/thread_limit.h"
#include "spec/advice/arguments.h"
#include "spec/schema/schema.h"
#include "text/message.h"
#include "text/option_checks.h"
#include "text/printable.h"
#include "text/shell.h"

namespace {

/// Returns the message of a parse error. CLI11 reports an unknown command as a missing one, which this corrects.
/// `first`, `second`: arguments, or null.
std::string usage_error(const CLI::App& app, const CLI::Error& error, const char* first, const char* second) {
  std::string text = error.what();
  const std::vector<std::string> names = llmc::names_of_commands(app);
  if (!first) text = fmt::format("no command was given. Write one of {}", llmc::spec::either(names));
  if (first && *first != '-') {
    if (std::ranges::find(names, first) == names.end()) {
      const std::string meant = llmc::spec::did_you_mean(first, names);
      const bool file = std::string_view(first).ends_with(".yaml") || std::string_view(first).ends_with(".yml");
      if (file)
        return fmt::format("write a command before the spec: llmc check {0}, llmc plan {0}, llmc run {0}", first);
      text = fmt::format("there is no command '{}'. {}The commands are {}", first, meant.empty() ? "" : meant + " ",
                         llmc::spec::either(names, ", "));
    }
    if (text == "A subcommand is required") {
      const std::string typed =
          second && *second != '-' ? fmt::format("there is no command '{} {}'. ", first, second) : "";
      const std::vector<std::string> known = llmc::names_of_commands(*app.get_subcommand(first));
      text = typed + fmt::format("{0} needs {1}: llmc {0} {2} --help", first, llmc::spec::either(known), known.front());
    }
    if (std::string_view(first) == "diff" && text.find(" is required") != std::string::npos)
      text =
          "diff compares two specs: llmc diff A B. To see what an override changes: llmc diff SPEC SPEC key.path=value";
    if (dynamic_cast<const CLI::ExtrasError*>(&error)) {
      const CLI::App& command = llmc::parsed_command(app);
      const std::vector<std::string> words = app.remaining(true);
      text = llmc::spec::unexpected_text(
          {words, llmc::long_options(command), command.get_option_no_throw("overrides") != nullptr});
      if (std::string_view(first) == "run")
        text += "\nwrite the trainer's arguments after `--`: llmc run SPEC -- --steps 100";
      if (std::string_view(first) == "init" && !words.empty() && words[0].ends_with(".yaml"))
        text += fmt::format(". Write llmc init -o {}", llmc::shell_word(words[0]));
    }
  }
  return text + "\n`llmc --help` and `llmc COMMAND --help` list the commands and options";
}

int run(int argc, char** argv) {
  CLI::App app("Compiles a YAML description of one model and one training run into a trainer for exactly that run.");
  app.name("llmc");
  app.set_version_flag("--version", LLMC_VERSION);
  app.require_subcommand(1);
  app.footer(
      "Every command that takes a SPEC also takes key.path=value overrides after it.\n\n"
      "Examples:\n"
      "  llmc check specs/quickstart.yaml\n"
      "  llmc plan specs/llama-1b.yaml batch.micro_batch=8\n"
      "  llmc run specs/quickstart.yaml schedule.steps=200\n"
      "  llmc diff specs/quickstart.yaml mine.yaml\n"
      "  llmc explain E0301");
  llmc::cli::Result result;
  llmc::cli::add_spec_commands(app, result);
  llmc::cli::add_plan_commands(app, result);
  llmc::cli::add_build_commands(app, result);
  llmc::cli::add_sweep_command(app, result);
  llmc::cli::add_scale_command(app);
  llmc::cli::add_verify_command(app, result);
  llmc::cli::add_data_commands(app, result);
  llmc::cli::add_checkpoint_commands(app, result);
  llmc::cli::add_run_commands(app, result);
  llmc::cli::add_device_commands(app);
  llmc::cli::add_calibrate_command(app);
  llmc::cli::add_sizes_command(app);
  llmc::cli::add_doctor_command(app, result);
  // Arguments after `--` are the trainer's; CLI11 would take them for overrides.
  char** const dashes = std::find(argv, argv + argc, std::string_view("--"));
  result.trainer_arguments.assign(std::min(dashes + 1, argv + argc), argv + argc);
  if (dashes != argv + argc && !(argc > 1 && std::string_view(argv[1]) == "run"))
    throw llmc::Failure(llmc::Exit::usage, "`--` is only for a trainer's arguments: llmc run SPEC -- --steps 100");
  std::vector<const char*> words(argv, dashes);
  llmc::spell_as_options(app, words);
  try {
    llmc::parse_words(app, static_cast<int>(words.size()), words.data());
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {  // --help, --version
      std::ostringstream text;
      app.exit(error, text, text);
      fmt::print("{}", text.str());
      return 0;
    }
    throw llmc::Failure(llmc::Exit::usage, usage_error(app, error, words.size() > 1 ? words[1] : nullptr,
                                                       words.size() > 2 ? words[2] : nullptr));
  }
  return result.exit_code;
}

/// Prints an internal error and how to report it.
int internal(const std::exception& error) {
  std::fprintf(stderr,
               "this is a bug in llmc, not in your spec: %s\n`llmc emit SPEC --dump-ir DIR` writes the graph after "
               "each pass. Report it with this line\n",
               llmc::printable_text(error.what()).c_str());
  return static_cast<int>(llmc::Exit::internal);
}

}  // namespace

int main(int argc, char** argv) {
  llmc::hold_standard_streams();
  std::signal(SIGCHLD, SIG_DFL);  // a parent may have ignored it, and then no child can be waited for
  // Of all commands, only this one computes.
  if (argc > 1 && std::string_view(argv[1]) == "verify") llmc::limit_spinning(argv);
  // fmt::print would throw if standard error cannot be written.
  const auto say = [](const std::string& text) { std::fputs(text.c_str(), stderr); };
  try {
    const int code = run(argc, argv);
    llmc::check_output();
    return code;
  } catch (const llmc::cli::InvalidSpec& invalid) {
    say(invalid.what());
    return static_cast<int>(invalid.code());
  } catch (const llmc::Failure& failure) {
    if (failure.code() == llmc::Exit::internal) return internal(failure);
    const bool colour = llmc::colour_on(2);
    say(fmt::format("{}error:{} {}\n", colour ? "\033[1;31m" : "", colour ? "\033[0m" : "",
                    llmc::printable_text(failure.what())));
    return static_cast<int>(failure.code());
  } catch (const std::bad_alloc&) {
    say("error: this process has no memory left\n");
    return static_cast<int>(llmc::Exit::does_not_fit);
  } catch (const std::exception& error) {
    if (llmc::lacks_threads(error)) {
      say(fmt::format("error: {}\n", llmc::kNoThreads));
      return static_cast<int>(llmc::Exit::does_not_fit);
    }
    if (const std::string why = llmc::stream_problem(); !why.empty()) {
      say("error: " + why + "\n");
      return static_cast<int>(llmc::Exit::usage);
    }
    return internal(error);
  }
}

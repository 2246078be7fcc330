#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>

#include "checkpoint/durable_file.h"
#include "error.h"
#include "math/tuning.h"
#include "train/clock.h"
#include "train/loop.h"
#include "train/metrics.h"
#include "train/options.h"
#include "train/program.h"
#include "train/resume.h"
#include "train/tune.h"

namespace llmc {
namespace {

namespace fs = std::filesystem;

std::int64_t last_step(const Options& options, const RunValues& values) {
  const std::int64_t stop = options.steps.value_or(values.schedule.steps);
  if (stop > values.schedule.steps)
    throw Failure(
        Exit::usage,
        fmt::format(
            "--steps {} goes past schedule.steps {}, where the learning rate ends; give schedule.steps={} as well",
            stop, values.schedule.steps, stop));
  return stop;
}

std::shared_ptr<const TokenShards> open_shards(const std::string& path, const std::string& format,
                                               const ProgramInfo& info) {
  return std::make_shared<const TokenShards>(path, format, info.vocab_size);
}

/// The command that goes on: this one, with the run folder's newest checkpoint.
std::string resume_command(int argc, char** argv) {
  std::string command;
  for (int i = 0; i < argc; ++i) {
    const std::string word = argv[i];
    if (word.starts_with("--resume")) {
      i += word == "--resume";
      continue;
    }
    const bool plain =
        word.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=,:+") ==
        std::string::npos;
    std::string quoted = word;
    if (!plain || word.empty()) {
      for (std::size_t at = 0; (at = quoted.find('\'', at)) != std::string::npos; at += 4)
        quoted.replace(at, 1, "'\\''");
      quoted = "'" + quoted + "'";
    }
    command += (i ? " " : "") + quoted;
  }
  return command;
}

void check_profile(const StepWindow& window, const Device& device, std::int64_t done, std::int64_t stop) {
  if (!device.runs_ahead())
    throw Failure(Exit::usage,
                  "--profile is for Nsight Systems on a GPU; on a CPU, run the trainer under perf or VTune");
  if (window.first < done || window.first + window.count > stop)
    throw Failure(Exit::usage, fmt::format("--profile {}:{} names steps {} to {}, and this run trains steps {} to {}",
                                           window.first + 1, window.count, window.first + 1,
                                           window.first + window.count, done + 1, stop));
}

void print_header(Console& console, const ProgramInfo& info, const Device& device, const RunValues& values,
                  const TokenShards& train, std::int64_t samples, const fs::path& run, const TrainState& state,
                  std::int64_t stop) {
  const std::int64_t sequences = values.batch_tokens / info.sequence_length;
  console.text(fmt::format("{}: {} parameters, fingerprint {}", info.name, format_count(info.parameter_count),
                           info.fingerprint));
  console.text(fmt::format("device  {}, compiled for {}", device.description(), info.arch));
  console.text(fmt::format("memory  {} bytes allocated ({:.1f} MiB)",
                           format_count(static_cast<std::int64_t>(info.arena.bytes)),
                           static_cast<double>(info.arena.bytes) / (1 << 20)));
  const std::string algorithms = describe_tuning(info.products, info.arena.math_workspace_bytes);
  if (!algorithms.empty()) console.text("gemm    " + algorithms);
  if (info.attention) console.text("attn    " + describe_attention(*info.attention));
  console.text(fmt::format("data    {} tokens in {} {}, {} samples of {}; {} steps of {} tokens are {:.2f} epochs",
                           format_count(train.tokens()), train.shards().size(),
                           train.shards().size() == 1 ? "shard" : "shards", format_count(samples), info.sequence_length,
                           format_count(stop), format_count(values.batch_tokens),
                           static_cast<double>(stop) * static_cast<double>(sequences) / static_cast<double>(samples)));
  console.text(fmt::format("run     {}, {}", run.string(),
                           state.step ? fmt::format("resumed at step {}", state.step) : "from step 0"));
}

int train(int argc, char** argv, const Options& options, const Program& program) {
  const ProgramInfo& info = program.info;
  std::signal(SIGPIPE, SIG_IGN);  // a log pipe that dies must not end a run
  const RunValues values =
      resolve_run_values(info.keys_json, options.overrides, options.base, info.sequence_length, info.micro_batch);
  const std::int64_t stop = last_step(options, values);
  const std::int64_t sequences = values.batch_tokens / info.sequence_length;
  Console console(stdout, options.quiet);
  const Log log = [&](const std::string& line) { console.warning(line); };

  const auto shards = open_shards(values.data.train_path, values.data.train_format, info);
  std::optional<Evaluation> evaluation;
  if (!values.data.validation_path.empty() && values.evaluation.every > 0)
    evaluation.emplace(open_shards(values.data.validation_path, values.data.validation_format, info), info,
                       values.evaluation.sequences);
  std::optional<Tokenizer> tokenizer;
  std::optional<Sampling> sampling;
  if (!values.sampling.prompts.empty() && values.sampling.every > 0) {
    if (!values.data.tokenizer.empty()) tokenizer.emplace(fs::path(values.data.tokenizer));
    sampling.emplace(values.sampling, tokenizer ? &*tokenizer : nullptr, info, values.seed);
  }

  RunFolder folder(options.run, info.fingerprint, info.spec_yaml, info.plan_json, log);
  TrainState state{0, 0, values.seed, values.data.seed, info.fingerprint, shards->fingerprint()};
  const std::optional<StartPoint> start = find_start(folder.path(), options.resume, log);
  if (start) {
    const TrainState saved = read_train_state(start->checkpoint);
    check_same_run(saved, state, start->checkpoint);
    state = saved;
  }
  if (state.step >= stop) {
    console.text(fmt::format("nothing to do: '{}' is at step {} of {}", folder.path().string(), state.step, stop));
    return 0;
  }

  // The first batches are read while the device gets ready.
  Loader loader(shards, values.data.seed, info.sequence_length, info.micro_batch, sequences,
                static_cast<std::int64_t>(state.samples_consumed));
  Device device(options.device, options.threads);
  if (options.profile) check_profile(*options.profile, device, state.step, stop);
  Session session(device, program, values.optimizer.decay_all);
  if (start) {
    load_checkpoint(start->checkpoint, info.parameters, session.state(), start->trust);
    session.refresh_copies();
  } else {
    session.initialise(values.seed);
  }
  folder.truncate_after(state.step);
  std::optional<TraceWriter> trace;
  if (!options.trace.empty()) trace.emplace(options.trace, info.parameters, info.micro_batch, info.sequence_length);
  print_header(console, info, device, values, *shards, loader.samples_per_epoch(), folder.path(), state, stop);

  SignalWatch signals;
  TrainLoop loop({values, session, loader, folder, console, signals, evaluation ? &*evaluation : nullptr,
                  sampling ? &*sampling : nullptr, trace ? &*trace : nullptr, stop, options.profile,
                  options.final_checkpoint},
                 state);
  const double training = process_seconds();
  const int signal = loop.run();
  if (!options.timing.empty())
    write_file_atomically(options.timing, format_timing(training, loop.first_step_end(), loop.step_seconds()));
  console.finish();
  if (signal == 0) return static_cast<int>(Exit::done);
  const std::string text = fmt::format("stopped by {} after step {} of {}, everything is saved; resume with\n  {}\n",
                                       signal_name(signal), loop.state().step, stop, resume_command(argc, argv));
  std::fputs(text.c_str(), stderr);
  return static_cast<int>(Exit::resume_me);
}

void print_error(const char* text) {
  const char* no_colour = std::getenv("NO_COLOR");
  const bool colour = isatty(STDERR_FILENO) && !(no_colour && *no_colour);
  std::fprintf(stderr, "%serror:%s %s\n", colour ? "\033[31m" : "", colour ? "\033[0m" : "", text);
}

}  // namespace

int train_main(int argc, char** argv, const Program& program) try {
  const std::optional<Options> options = parse_options(argc, argv, program.info);
  if (!options) return 0;
  if (options->plan) {
    fmt::print("{}", options->json ? program.info.plan_json : program.info.plan_text);
    return 0;
  }
  if (options->tune) {
    tune(program.info, options->device);
    return static_cast<int>(Exit::done);
  }
  return train(argc, argv, *options, program);
} catch (const Failure& failure) {
  print_error(failure.what());
  return static_cast<int>(failure.code());
} catch (const std::bad_alloc&) {
  print_error("the host's memory is used up; make batch.tokens or evaluation.sequences smaller");
  return static_cast<int>(Exit::does_not_fit);
} catch (const std::exception& error) {
  print_error(fmt::format("{}; this is a bug in llmc, not in your run: please report it with the command", error.what())
                  .c_str());
  return static_cast<int>(Exit::internal);
}

}  // namespace llmc

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "compiler/build/process.h"
#include "compiler/cli/build.h"
#include "compiler/cli/commands.h"
#include "compiler/tools/calibrate/calibration.h"
#include "device/device.h"
#include "error.h"
#include "files/disk.h"
#include "files/durable_file.h"
#include "files/temporary_folder.h"
#include "text/message.h"
#include "text/option_checks.h"

namespace llmc::cli {

namespace fs = std::filesystem;

namespace {

struct CalibrateOptions {
  std::vector<std::string> files;
  std::string out, device;
  std::vector<int> sizes;
  double seconds = 30;
  int threads = 0;
  BuildOptions build;
};

constexpr int kLargestSize = 4096;  // whose matrices fit in the memory that trainers measure in, also in fp32

/// Spec of the measuring trainers. Layers are wide enough that kernels run as in larger models; the sequence is of
/// medium length for attention.
constexpr char kSpec[] = R"(name: calibrate
model:
  vocab_size: 1024
  hidden_size: 512
  num_hidden_layers: 2
  num_attention_heads: 8
  num_key_value_heads: 4
  head_dim: 64
  intermediate_size: 1536
batch: {sequence_length: 512, micro_batch: 4, tokens: 2048}
memory: {budget: 2GiB, recompute: none}
optimizer: {lr: 1.0e-3}
schedule: {kind: constant, steps: 1}
data: {train: [{path: none.bin}]}
target: {kind: cpu, arch: native}
)";

std::string content(const fs::path& path) {
  if (std::optional<std::string> text = disk::text(path)) return *std::move(text);
  throw Failure(Exit::usage, fmt::format("cannot read {}: {}", path.string(), std::strerror(errno)));
}

/// Runs one trainer for each precision and head_dim, one after the other in the same folder, because they share most
/// kernels.
std::vector<calibration::Figures> measure(const CalibrateOptions& options) {
  const TemporaryFolder scratch("calibrate");
  const fs::path spec = scratch.path() / "calibrate.yaml", out = scratch.path() / "figures.json";
  write_file_atomically(spec, kSpec, {Exit::toolchain, "TMPDIR"});
  std::vector<calibration::Figures> all;
  for (const char* precision : {"fp32", "bf16"})
    for (const int head_dim : {64, 128}) {
      const Planned planned =
          plan_spec_here({spec.string(),
                          {fmt::format("precision.compute={}", precision), fmt::format("model.head_dim={}", head_dim),
                           fmt::format("model.num_attention_heads={}", 512 / head_dim),
                           fmt::format("model.num_key_value_heads={}", 256 / head_dim)}});
      BuildOptions build = options.build;
      build.out = (scratch.path() / "trainer").string();
      const fs::path trainer = compile(planned, build).trainer;
      // Products take most of the time, so one trainer of each precision measures them.
      const bool whole = head_dim == 64;
      const double seconds = options.seconds * (whole ? 0.9 : 0.1) / 2;
      to_stderr("measuring {}, head_dim {}: about {:.0f} s\n", precision, head_dim, seconds);
      std::vector<std::string> argv = {trainer.string(),           "calibrate", "--seconds",
                                       fmt::format("{}", seconds), "-o",        out.string()};
      if (options.threads) argv.insert(argv.end(), {"--threads", std::to_string(options.threads)});
      if (!whole) argv.emplace_back("--attention-only");
      for (const int size : options.sizes) argv.insert(argv.end(), {"--sizes", std::to_string(size)});
      const build::Outcome done = build::run({"calibrate", argv, ""});
      if (done.exit_code != 0) throw Failure(Exit::toolchain, "the trainer that measures failed:\n" + done.output);
      all.push_back(calibration::read_figures(content(out), out.string()));
    }
  return all;
}

/// Returns the built-in device that the figures belong to.
devices::Device base_of(const calibration::Figures& figures, const std::string& wish) {
  const std::string named = wish.empty() && figures.kind == spec::TargetKind::cpu ? "cpu" : wish;
  const std::string reported = figures.device.substr(0, figures.device.find(" (sm_"));
  std::string names;
  for (const devices::Device& device : devices::all()) {
    if (named.empty() ? device.reports == reported : device.is_called(named)) return device;
    names += (names.empty() ? "" : ", ") + device.name;
  }
  throw Failure(
      Exit::usage,
      fmt::format("{}. Values that were not measured are taken from a known device. Name one with --device: {}",
                  named.empty() ? fmt::format("llmc knows no device called '{}'", reported)
                                : fmt::format("llmc knows no device '{}'", named),
                  names));
}

/// Prints a note if half of the samples of a figure differ by more than some percent from their median.
void note_spread(const std::vector<calibration::Figures>& all) {
  constexpr double kMost = 0.25;
  double most = 0;
  for (const calibration::Figures& figures : all) most = std::max(most, figures.spread);
  if (most > kMost)
    to_stderr(
        "note: repeated measurements differ by {:.0f} % for half of the samples, because other programs ran. Measure "
        "again on an idle machine\n",
        100 * most);
}

fs::path place(const CalibrateOptions& options, const std::string& name) {
  if (!options.out.empty()) return options.out;
  const fs::path folder = devices::user_folder();
  if (folder.empty())
    throw Failure(Exit::usage,
                  "the folder of your device files is unknown, because neither XDG_CONFIG_HOME nor HOME is set. Name a "
                  "file with -o");
  return folder / (name + ".yaml");
}

void run(const CalibrateOptions& options) {
  if (options.files.empty() && !options.device.empty())
    throw Failure(Exit::usage, "--device works only with files that a trainer wrote on another device. Leave it out");
  const Writer writer{Exit::usage, "-o"};
  if (options.files.empty()) {  // fail before a minute of measuring
    const fs::path path = place(options, "cpu");
    if (options.out.empty()) make_directories(path.parent_path(), writer);
    check_can_write(path, writer);
  }
  std::vector<calibration::Figures> all;
  for (const std::string& file : options.files) all.push_back(calibration::read_figures(content(file), file));
  if (all.empty()) all = measure(options);
  note_spread(all);
  const devices::Device device = calibration::apply(all, base_of(all.front(), options.device));
  const std::string text =
      fmt::format("# Written by llmc calibrate. Figures that were not measured are those of the base device.\n{}",
                  devices::to_yaml(device));
  devices::read(text, "the device file");
  const fs::path path = place(options, device.name);
  if (options.out.empty()) make_directories(path.parent_path(), writer);
  write_file_atomically(path, text, writer);
  using devices::Figure;
  fmt::print(
      "{}: products {:.3g} TFLOP/s in bf16, {:.3g} in fp32; copies {:.3g} GB/s, {:.3g} within a cache; {:.2g} us "
      "a launch\n",
      device.name, 1e-12 * device[Figure::product_bf16], 1e-12 * device[Figure::product_fp32],
      1e-9 * device[Figure::copy], 1e-9 * device[Figure::cache_copy], 1e6 * device[Figure::launch]);
  fmt::print("wrote {}: {}\n", path.string(),
             options.out.empty() ? fmt::format("the planner uses it from now on to predict times on {}", device.name)
                                 : "a name for target.device");
}

}  // namespace

void add_calibrate_command(CLI::App& app) {
  auto options = std::make_shared<CalibrateOptions>();
  CLI::App* command = app.add_subcommand(
      "calibrate", "write a device file from measurements of this machine's processor, or from those of a trainer");
  command
      ->add_option("files", options->files,
                   "output of `trainer calibrate -o FILE` on a device, instead of measuring here")
      ->type_name("FILE");
  command
      ->add_option("-o,--out", options->out,
                   "the device file (default: of the device's name in your folder of device files)")
      ->type_name("FILE");
  command
      ->add_option("--device", options->device,
                   "with FILEs: the device of `llmc devices` that provides the figures that were not measured")
      ->type_name("NAME");
  auto* seconds = command
                      ->add_option("--seconds", options->seconds,
                                   "seconds to measure for, without the time to compile the trainers that measure")
                      ->type_name("SECONDS")
                      ->check(finite_from(0, 3600))
                      ->capture_default_str();
  auto* sizes =
      command->add_option("--sizes", options->sizes, "sizes m, n and k of products (default: 32 128 512 2048)")
          ->type_name("N")
          ->check(CLI::Range(32, kLargestSize));
  auto* threads =
      command
          ->add_option("--threads", options->threads,
                       "processor threads (default: as for a run, OMP_NUM_THREADS or all that this process may use)")
          ->type_name("N")
          ->check(CLI::Range(1, kMostThreads));
  for (CLI::Option* option : {seconds, sizes, threads, add_jobs(command, options->build.jobs)})
    option->excludes(command->get_option("files"));
  command->footer("Measure while nothing else runs.\nExample: llmc calibrate");
  command->callback([options] { run(*options); });
}

}  // namespace llmc::cli

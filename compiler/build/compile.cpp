#include "compiler/build/compile.h"

#include <fmt/format.h>
#define XXH_INLINE_ALL
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <set>

#include "compiler/build/checksums.h"
#include "compiler/build/process.h"
#include "compiler/build/ptxas.h"
#include "compiler/emit/flags.h"
#include "compiler/emit/kernel_sources.h"
#include "compiler/emit/program_printer.h"
#include "compiler/emit/step_printer.h"
#include "error.h"
#include "files/disk.h"
#include "files/durable_file.h"
#include "program/compiled_spec.h"

namespace llmc::build {

namespace fs = std::filesystem;

namespace {

class Hash {
 public:
  Hash() { XXH3_128bits_reset(&state_); }
  Hash& add(std::string_view text) {
    const std::uint64_t size = text.size();
    XXH3_128bits_update(&state_, &size, sizeof size);
    XXH3_128bits_update(&state_, text.data(), text.size());
    return *this;
  }
  std::string hex() const {
    const XXH128_hash_t h = XXH3_128bits_digest(&state_);
    return fmt::format("{:016x}{:016x}", h.high64, h.low64);
  }

 private:
  mutable XXH3_state_t state_;
};

/// Hashes the headers that emitted sources include from the runtime and the templates.
std::string header_hash(const Home& home) {
  std::set<fs::path> headers;
  for (const fs::path& folder : {home.source / "runtime", home.source / "templates"})
    for (const fs::path& file : disk::files_below(folder, Exit::toolchain)) headers.insert(file);
  Hash hash;
  for (const fs::path& h : headers) {
    const std::string extension = h.extension();
    if (extension == ".h" || extension == ".cuh" || h.parent_path().filename() == "templates")
      hash.add(emit::read_text(h));
  }
  return hash.hex();
}

/// Drops the comment that names the run, so that two runs may share an object.
std::string without_header(const std::string& text) {
  std::size_t at = 0;
  while (text.compare(at, 2, "//") == 0) at = text.find('\n', at) + 1;
  return text.substr(at);
}

/// Returns a temporary output path of this process: compilers left by a killed llmc may still write theirs.
fs::path unfinished(const fs::path& file) { return fmt::format("{}.{}.new", file.string(), getpid()); }

struct Unit {
  std::string source;  // relative to the project
  fs::path object;
  fs::path report;  // ptxas output; empty: none
  Command command;

  bool built(const Checksums& checksums) const {
    return checksums.vouch_for(object.filename()) && (report.empty() || checksums.vouch_for(report.filename()));
  }
  /// Moves the compiler's outputs from their temporary names.
  void keep(const std::string& output, Checksums& checksums) const {
    if (!report.empty()) {
      emit::write_file(report, output);
      checksums.add(report.filename());
    }
    disk::rename(unfinished(object), object, Exit::toolchain);
    checksums.add(object.filename());
  }
};

class Project {
 public:
  Project(const plan::Plan& plan, const fs::path& folder, const Home& home)
      : folder_(disk::absolute(folder, Exit::usage)),
        home_(home),
        cuda_(plan.spec.target.kind == spec::TargetKind::cuda) {
    // Compilers run in the project, whose own files have relative names: a cache of compilers then knows a kernel again
    // in another project.
    includes_ = {"-I.", "-I" + (home.source / "runtime").string(), "-I" + home.source.string(),
                 "-I" + (home.source / "templates").string(), "-I" + (home.source / "templates" / "cpu").string()};
    cpu_ = find_cpu_toolchain();
    if (cuda_) {
      cuda_tools_ = find_cuda_toolchain(home);
      kernel_compiler_ = {cuda_tools_.nvcc};
      for (const std::string& f : emit::cuda_flags()) kernel_compiler_.push_back(f);
      for (const std::string& f : emit::gencode(plan.spec.target.arch)) kernel_compiler_.push_back(f);
      step_compiler_ = kernel_compiler_;
      host_compiler_ = {cpu_.compiler, "-std=c++20", "-O2"};
    } else {
      const std::string arch =
          resolve_cpu_arch(plan.spec.target.arch.empty() ? "native" : plan.spec.target.arch.front());
      check_arch(cpu_, arch);
      const auto with = [&](std::vector<std::string> words) {
        words.insert(words.begin(), cpu_.compiler);
        words.push_back("-march=" + arch);
        return words;
      };
      kernel_compiler_ = with(emit::cpu_flags());
      step_compiler_ = with(emit::cpu_step_flags());
      host_compiler_ = {cpu_.compiler, "-std=c++20", "-O1", "-DLLMC_ARCH=\"" + arch + "\""};
    }
    for (const plan::Kernel& k : plan.kernels) sources_.push_back("kernels/" + k.name + (cuda_ ? ".cu" : ".cpp"));
    sources_.push_back(cuda_ ? "step.cu" : "step.cpp");
    sources_.push_back("program.cpp");
    sources_.push_back("texts.S");
    for (const auto& [name, text] : emit::text_files(plan)) texts_.push_back(name);
  }

  std::vector<Unit> units() const {
    const std::string headers = header_hash(home_);
    Hash included;
    for (const char* header : {"kernels.h", "step.h", emit::kPiecesFile})
      included.add(emit::read_text(folder_ / header));
    const std::string local = included.hex();
    std::vector<Unit> result;
    for (const std::string& source : sources_) {
      const bool texts = source == "texts.S", host = texts || source == "program.cpp",
                 kernel = source.rfind("kernels/", 0) == 0;
      std::vector<std::string> argv = host ? host_compiler_ : kernel ? kernel_compiler_ : step_compiler_;
      if (cuda_ && kernel) argv.insert(argv.end(), {"-Xptxas", "-v"});
      argv.insert(argv.end(), includes_.begin(), includes_.end());
      Hash hash;
      for (const std::string& a : argv) hash.add(a);
      hash.add(cpu_.version).add(cuda_tools_.version).add(headers).add(kernel ? "" : local);
      hash.add(without_header(emit::read_text(folder_ / source)));
      if (texts) {
        argv.insert(argv.end(), {"-Xassembler", "-I."});
        for (const std::string& name : texts_) hash.add(emit::read_text(folder_ / name));
      }
      Unit unit;
      unit.source = source;
      unit.object = folder_ / "objects" / (hash.hex() + ".o");
      if (cuda_ && kernel) unit.report = fs::path(unit.object).replace_extension(".ptxas");
      argv.insert(argv.end(), {"-c", source, "-o", unfinished(unit.object).lexically_relative(folder_).string()});
      unit.command = {source, argv, folder_};
      result.push_back(std::move(unit));
    }
    return result;
  }

  std::vector<std::string> link_command(const std::vector<Unit>& units, const fs::path& trainer) const {
    std::vector<std::string> argv = {cpu_.compiler, "-fopenmp", "-o", trainer.string()};
    if (!linker().empty()) argv.push_back("-fuse-ld=" + linker());
    for (const Unit& unit : units) argv.push_back(unit.object.string());
    const std::vector<std::string> libraries = runtime_libraries();
    argv.insert(argv.end(), libraries.begin(), libraries.end());
    return argv;
  }

  /// Reads the link line that CMake wrote for the runtime: its own libraries and their dependencies.
  std::vector<std::string> runtime_libraries() const {
    const fs::path list = home_.build / (cuda_ ? "runtime-cuda.link" : "runtime-cpu.link");
    std::ifstream in(list);
    if (!in)
      throw Failure(Exit::toolchain,
                    "the runtime is not built (no " + list.filename().string() + "). Rerun cmake --build on llmc");
    std::vector<std::string> words;
    for (std::string line; std::getline(in, line);)
      if (!line.empty()) words.push_back(line[0] == '-' || line[0] == '/' ? line : (home_.build / line).string());
    return words;
  }

  std::string identity(const std::vector<Unit>& units) const {
    Hash hash;
    hash.add(linker());
    for (const Unit& u : units) hash.add(u.object.filename().string());
    for (const std::string& word : runtime_libraries()) {
      hash.add(word);
      std::error_code missing;
      if (word[0] == '/') hash.add(std::to_string(fs::last_write_time(word, missing).time_since_epoch().count()));
    }
    return hash.hex();
  }

 private:
  /// Empty for nvcc: the toolkit supports its own choice of linker.
  std::string linker() const { return cuda_ ? "" : cpu_.linker; }

  fs::path folder_;
  const Home& home_;
  bool cuda_;
  CpuToolchain cpu_;
  CudaToolchain cuda_tools_;
  std::vector<std::string> includes_, kernel_compiler_, step_compiler_, host_compiler_, sources_, texts_;
};

void drop_old_objects(const fs::path& folder, const std::vector<Unit>& units) {
  std::set<fs::path> wanted;
  for (const Unit& u : units) wanted.insert({u.object.filename(), u.report.filename()});
  wanted.insert({"trainer.hash", Checksums::kFile});
  std::error_code kept;
  for (const fs::path& entry : disk::entries(folder, Exit::toolchain))
    if (!wanted.count(entry.filename())) fs::remove_all(entry, kept);
}

/// Returns the text of objects/trainer.hash for a trainer linked from sources and libraries of `identity`; empty if it
/// is not executable.
std::string stamp_of(const fs::path& trainer, const std::string& identity) {
  return access(trainer.c_str(), X_OK) == 0 ? identity + " " + seal_of(trainer) : "";
}

}  // namespace

CompileResult compile_project(const plan::Plan& plan, const fs::path& folder, const Home& home, int jobs,
                              const Progress& progress) {
  const auto start = std::chrono::steady_clock::now();
  const Project project(plan, folder, home);
  const std::vector<Unit> units = project.units();
  project.runtime_libraries();  // throws now rather than after all sources have been compiled
  make_directories(folder / "objects", {Exit::usage, "-o"});

  CompileResult result;
  result.trainer = folder / "trainer";
  Checksums checksums(folder / "objects");
  std::vector<Command> commands;
  std::vector<const Unit*> stale;
  for (const Unit& unit : units) {
    if (!unit.report.empty()) result.reports[fs::path(unit.source).stem()] = unit.report;
    if (unit.built(checksums)) {
      ++result.reused;
      continue;
    }
    commands.push_back(unit.command);
    stale.push_back(&unit);
  }
  if (!commands.empty())
    progress(fmt::format("compiling {} of {} sources in {}", commands.size(), units.size(),
                         disk::absolute(folder, Exit::usage).lexically_normal().string()));
  const std::vector<Outcome> outcomes = run_all(commands, jobs);
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    if (outcomes[i].exit_code != 0) {
      checksums.save();
      throw Failure(Exit::toolchain, fmt::format("{} does not compile:\n{}", commands[i].label, outcomes[i].output));
    }
    if (const std::string warnings = without_ptxas(outcomes[i].output); !warnings.empty())
      progress(fmt::format("{}:\n{}", commands[i].label, warnings));
    stale[i]->keep(outcomes[i].output, checksums);
    ++result.compiled;
  }
  if (result.compiled > 0) checksums.save();

  const fs::path stamp = folder / "objects" / "trainer.hash";
  const std::string identity = project.identity(units);
  const std::string before = disk::text(stamp).value_or("");
  const bool fresh = !before.empty() && before == stamp_of(result.trainer, identity);
  drop_old_objects(folder / "objects", units);
  if (!fresh) {
    progress("linking trainer");
    const fs::path temporary = unfinished(result.trainer);
    const Outcome linked = run({"link", project.link_command(units, temporary), ""});
    if (linked.exit_code != 0) throw Failure(Exit::toolchain, "the trainer does not link:\n" + linked.output);
    disk::rename(temporary, result.trainer, Exit::toolchain);
    emit::write_file(stamp, stamp_of(result.trainer, identity));
    result.linked = true;
  }
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

namespace {

fs::path real_file(const fs::path& file) {
  const fs::path path = disk::absolute(file, Exit::usage);
  return disk::canonical(path.parent_path(), Exit::usage) / path.filename();
}

}  // namespace

fs::path spec_file(const spec::Resolved& resolved) { return real_file(resolved.files.front().path); }

SpecNote spec_note(const fs::path& folder, const spec::Resolved& resolved) {
  const auto line = [](const fs::path& path) {
    if (path.string().find('\n') != std::string::npos)
      throw Failure(Exit::usage,
                    "the path '" + path.string() +
                        "' has a line feed, and a trainer could not find its spec. Rename the folder or file");
    return path.string() + "\n";
  };
  // Resolved, because the system reports a program's own path without symbolic links.
  const auto real = [](const fs::path& path) { return disk::canonical(path, Exit::usage); };
  SpecNote note{line(real(resolved.directory)) + line(real(folder)), ""};
  for (const spec::SpecFile& file : resolved.files)
    note.files +=
        fmt::format("{:016x} {}", XXH3_64bits(file.text.data(), file.text.size()), line(real_file(file.path)));
  return note;
}

void write_note(const fs::path& folder, const SpecNote& note) {
  emit::write_file(folder / kSpecDirectoryFile, note.directory);
  emit::write_file(folder / kSpecFilesFile, note.files);
}

}  // namespace llmc::build

// Parses a template with its params, notes what the specialiser may edit, and formats text. The only file that includes
// Clang, of a library of its own (library.h).
#include "compiler/emit/specialiser/analysis.h"

#include <clang/AST/ASTConsumer.h>
#include <clang/AST/ASTContext.h>
#include <clang/Basic/Diagnostic.h>
#include <clang/Format/Format.h>
#include <clang/Frontend/CompilerInstance.h>
#include <clang/Frontend/CompilerInvocation.h>
#include <clang/Frontend/FrontendAction.h>
#include <clang/Lex/MacroArgs.h>
#include <clang/Lex/PPCallbacks.h>
#include <clang/Lex/Preprocessor.h>
#include <clang/Lex/PreprocessorOptions.h>
#include <clang/Serialization/ASTWriter.h>
#include <clang/Serialization/PCHContainerOperations.h>
#include <llvm/Support/VirtualFileSystem.h>

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>

#include "compiler/emit/specialiser/collector.h"
#include "compiler/emit/specialiser/cuda_stub.h"
#include "compiler/emit/specialiser/library.h"
#include "error.h"

namespace llmc::emit {
namespace {

constexpr char kHeadersPath[] = "/llmc-specialiser/headers.h";
constexpr char kPrecompiledPath[] = "/llmc-specialiser/headers.pch";
constexpr char kHeaders[] = "#include \"device/group.h\"\n";  // which includes most of what templates need

/// Keeps warnings and errors as "file:line: message" lines.
class Diagnostics : public clang::DiagnosticConsumer {
 public:
  explicit Diagnostics(const SpecialiseInput& input) : input_(input) {}

  void HandleDiagnostic(clang::DiagnosticsEngine::Level level, const clang::Diagnostic& info) override {
    DiagnosticConsumer::HandleDiagnostic(level, info);
    if (level < clang::DiagnosticsEngine::Warning) return;
    llvm::SmallString<128> message;
    info.FormatDiagnostic(message);
    if (!text.empty()) text += "\n";
    text += info.hasSourceManager() ? place(info.getSourceManager(), info.getLocation(), input_) : input_.template_file;
    text += ": " + message.str().str();
  }

  std::string text;

 private:
  const SpecialiseInput& input_;
};

/// Records where the template invokes macros with arguments: a params name there may never reach the AST.
class MacroUses : public clang::PPCallbacks {
 public:
  MacroUses(clang::SourceManager& sources, Analysis& analysis) : sources_(sources), analysis_(analysis) {}

  void MacroExpands(const clang::Token&, const clang::MacroDefinition&, clang::SourceRange range,
                    const clang::MacroArgs* arguments) override {
    if (!arguments || !range.getBegin().isFileID() || !sources_.isWrittenInMainFile(range.getBegin())) return;
    analysis_.macro_uses.push_back(
        {sources_.getFileOffset(range.getBegin()), sources_.getFileOffset(range.getEnd()) + 1});
  }

 private:
  clang::SourceManager& sources_;
  Analysis& analysis_;
};

class Action : public clang::ASTFrontendAction {
 public:
  Action(const SpecialiseInput& input, Analysis& analysis) : input_(input), analysis_(analysis) {}

  /// Stored, because Clang is compiled without exceptions and none may pass through it.
  std::optional<Failure> failure;

 private:
  struct Consumer : clang::ASTConsumer {
    explicit Consumer(Action& owner) : action(owner) {}
    void HandleTranslationUnit(clang::ASTContext& context) override {
      if (context.getDiagnostics().hasErrorOccurred()) return;
      try {
        Collector collector(context, action.input_, action.analysis_);
        // Neither loads the precompiled headers' declarations nor visits those that are loaded.
        for (clang::Decl* declared : context.getTranslationUnitDecl()->noload_decls())
          if (!declared->isFromASTFile()) collector.TraverseDecl(declared);
      } catch (const Failure& error) {
        action.failure = error;
      }
    }
    /// Of headers' functions only signatures matter; Clang still parses bodies that it needs for constants and deduced
    /// types. Bodies are half of all parsing.
    bool shouldSkipFunctionBody(clang::Decl* function) override {
      const clang::SourceManager& sources = function->getASTContext().getSourceManager();
      return !sources.isInMainFile(sources.getExpansionLoc(function->getLocation()));
    }
    Action& action;
  };

  std::unique_ptr<clang::ASTConsumer> CreateASTConsumer(clang::CompilerInstance& compiler, llvm::StringRef) override {
    compiler.getPreprocessor().addPPCallbacks(std::make_unique<MacroUses>(compiler.getSourceManager(), analysis_));
    return std::make_unique<Consumer>(*this);
  }

  const SpecialiseInput& input_;
  Analysis& analysis_;
};

/// Returns arguments of the compiler proper. There is no driver, which would search this machine for toolkits and
/// libraries.
std::vector<std::string> arguments(const SpecialiseInput& input, const char* file, bool stub) {
  std::vector<std::string> all = {"-fsyntax-only",
                                  "-std=c++20",
                                  "-fgnuc-version=4.2.1",
                                  "-isystem",
                                  input.include_directory.string(),
                                  "-Wall",
                                  "-Wextra",
                                  "-Wno-unused",
                                  "-Wno-unused-parameter",
                                  "-Wno-unknown-pragmas",
                                  "-fno-caret-diagnostics"};
  const auto add = [&](std::initializer_list<const char*> more) { all.insert(all.end(), more.begin(), more.end()); };
  if (input.target == spec::TargetKind::cuda) {
    // Clang 19 knows no newer architecture; the text does not depend on it.
    static const std::set<std::string> known = {"sm_80", "sm_86", "sm_87", "sm_89", "sm_90", "sm_90a"};
    const std::string arch = known.contains(input.arch) ? input.arch : "sm_90a";
    add({"-triple", "nvptx64-nvidia-cuda", "-aux-triple", "x86_64-unknown-linux-gnu", "-fcuda-is-device", "-x",
         "cuda"});
    add({"-target-cpu", arch.c_str(), "-target-feature", "+ptx83"});
    if (stub) add({"-include", kStubPath});
  } else {
    const char* arch = input.arch.empty() ? "x86-64-v4" : input.arch.c_str();
    add({"-triple", "x86_64-unknown-linux-gnu", "-target-cpu", arch, "-fopenmp", "-x", "c++"});
  }
  add({file});
  return all;
}

/// A compiler with files in memory, for one run.
class Compiler {
 public:
  Compiler(const SpecialiseInput& input, std::vector<std::string> arguments)
      : diagnostics_(input), arguments_(std::move(arguments)) {
    add(kHeadersPath, kHeaders);
    add(kStubPath, kCudaStub);
  }

  /// Adds a file. Its text must outlive the compiler and end with a null character.
  void add(const char* path, llvm::StringRef text) {
    memory_->addFile(path, 0, llvm::MemoryBuffer::getMemBuffer(text));
  }

  /// `headers`: path of a precompiled header, or empty. Returns whether the action could be done.
  bool run(clang::FrontendAction& action, const std::string& headers) {
    auto overlay = llvm::makeIntrusiveRefCnt<llvm::vfs::OverlayFileSystem>(llvm::vfs::getRealFileSystem());
    overlay->pushOverlay(memory_);
    auto invocation = std::make_shared<clang::CompilerInvocation>();
    std::vector<const char*> pointers;
    for (const std::string& text : arguments_) pointers.push_back(text.c_str());
    const auto reading = clang::CompilerInstance::createDiagnostics(new clang::DiagnosticOptions, &diagnostics_, false);
    clang::CompilerInvocation::CreateFromArgs(*invocation, pointers, *reading);
    invocation->getFrontendOpts().SkipFunctionBodies = true;  // those that the consumer selects
    clang::PreprocessorOptions& preprocessor = invocation->getPreprocessorOpts();
    preprocessor.ImplicitPCHInclude = headers;
    preprocessor.DisablePCHOrModuleValidation = clang::DisableValidationForModuleKind::All;
    clang::CompilerInstance compiler;
    compiler.setInvocation(invocation);
    compiler.createDiagnostics(&diagnostics_, /*ShouldOwnClient=*/false);
    compiler.createFileManager(overlay);
    return compiler.ExecuteAction(action);
  }

  const std::string& said() const { return diagnostics_.text; }

 private:
  Diagnostics diagnostics_;
  std::vector<std::string> arguments_;
  llvm::IntrusiveRefCntPtr<llvm::vfs::InMemoryFileSystem> memory_{new llvm::vfs::InMemoryFileSystem};
};

/// Writes a precompiled header to memory.
class HeadersAction : public clang::ASTFrontendAction {
 public:
  std::shared_ptr<clang::PCHBuffer> written = std::make_shared<clang::PCHBuffer>();

 private:
  std::unique_ptr<clang::ASTConsumer> CreateASTConsumer(clang::CompilerInstance& compiler, llvm::StringRef) override {
    return std::make_unique<clang::PCHGenerator>(compiler.getPreprocessor(), compiler.getModuleCache(),
                                                 kPrecompiledPath, "", written,
                                                 llvm::ArrayRef<std::shared_ptr<clang::ModuleFileExtension>>(),
                                                 /*AllowASTWithErrors=*/false, /*IncludeTimestamps=*/false);
  }
  clang::TranslationUnitKind getTranslationUnitKind() override { return clang::TU_Prefix; }
  bool hasASTFileSupport() const override { return false; }
};

std::string precompile(const SpecialiseInput& input) {
  Compiler compiler(input, arguments(input, kHeadersPath, true));
  HeadersAction action;
  const bool parsed = compiler.run(action, "");
  if (!compiler.said().empty()) throw Failure(Exit::internal, compiler.said());
  if (!parsed || !action.written->IsComplete)
    throw Failure(Exit::internal, input.template_file + ": Clang could not parse the headers of templates");
  return {action.written->Data.begin(), action.written->Data.end()};
}

/// kHeaders, parsed once in a process for all templates of a target that include them.
const std::string& precompiled_headers(const SpecialiseInput& input) {
  static std::mutex mutex;
  static std::map<std::vector<std::string>, std::string> known;
  const std::lock_guard lock(mutex);
  std::string& headers = known[arguments(input, kHeadersPath, true)];
  if (headers.empty()) headers = precompile(input);
  return headers;
}

Analysis analyse_template(const SpecialiseInput& input) {
  const bool precompiled = input.template_text.find(kHeaders) != std::string::npos;
  const std::string params = "#pragma once\n#include \"device/types.h\"\n" + params_text(input.params);
  Compiler compiler(input, arguments(input, kKernelPath, !precompiled));  // precompiled headers contain the stub
  compiler.add(kKernelPath, input.template_text);
  compiler.add(kParamsPath, params);
  if (precompiled) compiler.add(kPrecompiledPath, precompiled_headers(input));
  Analysis analysis;
  Action action(input, analysis);
  const bool parsed = compiler.run(action, precompiled ? kPrecompiledPath : "");
  if (!compiler.said().empty()) throw Failure(Exit::internal, compiler.said());
  if (action.failure) throw *action.failure;
  if (!parsed) throw Failure(Exit::internal, input.template_file + ": Clang could not parse it");
  return analysis;
}

std::string format_text(const std::string& text) {
  auto style = clang::format::getStyle(kFormatStyle, kKernelPath, "none");
  if (!style) throw Failure(Exit::internal, "the formatting style is not valid: " + llvm::toString(style.takeError()));
  const auto edits = clang::format::reformat(*style, text, {clang::tooling::Range(0, text.size())}, kKernelPath);
  auto formatted = clang::tooling::applyAllReplacements(text, edits);
  if (!formatted) throw Failure(Exit::internal, "formatting failed: " + llvm::toString(formatted.takeError()));
  return *formatted;
}

}  // namespace

extern "C" const ClangTable llmc_clang_table;
const ClangTable llmc_clang_table = {analyse_template, format_text};

}  // namespace llmc::emit

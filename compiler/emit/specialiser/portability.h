// Finds constants that are the same on every machine that may compile the emitted text. Only analysis.cpp includes it.
#pragma once

#include <clang/AST/ASTContext.h>
#include <clang/AST/Expr.h>
#include <clang/AST/ExprCXX.h>
#include <clang/Basic/SourceManager.h>

#include <map>
#include <set>

namespace llmc::emit {

/// Vector widths, tile sizes and the like depend on the instruction set. They come from the folders of a target, from
/// macros and from vector types; every constant computed from them is non-portable. A text for one instruction set may
/// depend on them; bases() lists which.
class Portability {
 public:
  explicit Portability(const clang::SourceManager& sources) : sources_(sources) {}

  bool holds(const clang::Stmt* statement) {
    if (const auto* reference = llvm::dyn_cast<clang::DeclRefExpr>(statement)) return holds(reference->getDecl());
    if (const auto* member = llvm::dyn_cast<clang::MemberExpr>(statement); member && !holds(member->getMemberDecl())) {
      return false;
    }
    if (const auto* size = llvm::dyn_cast<clang::UnaryExprOrTypeTraitExpr>(statement)) {
      return holds(size->getTypeOfArgument());
    }
    if (const auto* call = llvm::dyn_cast<clang::CXXConstructExpr>(statement); call && !holds(call->getConstructor())) {
      return false;
    }
    // A literal that a header's macro spells, such as a width chosen by #if.
    const bool literal = llvm::isa<clang::IntegerLiteral, clang::FloatingLiteral, clang::CXXBoolLiteralExpr>(statement);
    if (literal && !sources_.isWrittenInMainFile(sources_.getSpellingLoc(statement->getBeginLoc())) &&
        statement->getBeginLoc().isMacroID()) {
      return false;
    }
    for (const clang::Stmt* child : statement->children()) {
      if (child && !holds(child)) return false;
    }
    return true;
  }

  /// Adds the constants of the target's headers that the statement is computed from, directly or through others.
  void bases(const clang::Stmt* statement, std::set<const clang::VarDecl*>& found) const {
    if (const auto* reference = llvm::dyn_cast<clang::DeclRefExpr>(statement)) {
      const auto* variable = llvm::dyn_cast<clang::VarDecl>(reference->getDecl());
      const clang::Stmt* from = nullptr;
      if (variable) from = variable->getAnyInitializer();
      if (const auto* function = llvm::dyn_cast<clang::FunctionDecl>(reference->getDecl())) from = function->getBody();
      if (variable && is_base(variable))
        found.insert(variable);
      else if (from)
        bases(from, found);
    }
    for (const clang::Stmt* child : statement->children()) {
      if (child) bases(child, found);
    }
  }

  bool of_target(clang::SourceLocation at) const {
    const llvm::StringRef file = sources_.getFilename(sources_.getExpansionLoc(at));
    return file.contains("/device/cpu/") || file.contains("/device/cuda/");
  }

 private:
  /// Whether it is a named integer constant and no instance of a template.
  bool is_base(const clang::VarDecl* constant) const {
    return of_target(constant->getLocation()) && constant->isConstexpr() &&
           constant->getType()->isIntegralOrEnumerationType() && constant->getDeclContext()->isFileContext() &&
           !llvm::isa<clang::VarTemplateSpecializationDecl>(constant);
  }

  bool holds(const clang::Decl* declaration) {
    // Assumed portable while it is examined, so that recursion ends.
    const auto [known, unseen] = known_.try_emplace(declaration, true);
    if (!unseen) return known->second;
    bool result = !of_target(declaration->getLocation());
    if (const auto* variable = llvm::dyn_cast<clang::VarDecl>(declaration); result && variable) {
      if (const clang::Expr* value = variable->getAnyInitializer()) result = holds(value);
    }
    if (const auto* value = llvm::dyn_cast<clang::EnumConstantDecl>(declaration); result && value) {
      if (value->getInitExpr()) result = holds(value->getInitExpr());
    }
    if (const auto* function = llvm::dyn_cast<clang::FunctionDecl>(declaration); result && function) {
      if (const clang::Stmt* body = function->getBody()) result = holds(body);
    }
    return known_[declaration] = result;
  }

  /// Whether sizeof the type is fixed: scalars, and records of them.
  bool holds(clang::QualType type) {
    const clang::QualType bare = type.getCanonicalType().getNonReferenceType();
    if (bare->isVectorType() || bare->isArrayType()) return false;
    const auto* record = bare->getAsRecordDecl();
    if (!record) return true;
    if (of_target(record->getLocation())) return false;
    for (const clang::FieldDecl* field : record->fields()) {
      if (!holds(field->getType())) return false;
    }
    return true;
  }

  const clang::SourceManager& sources_;
  std::map<const clang::Decl*, bool> known_;
};

}  // namespace llmc::emit

// Visits a template's syntax tree and notes what the specialiser may edit. Only analysis.cpp includes it.
#pragma once

#include <clang/AST/ASTContext.h>
#include <clang/AST/RecursiveASTVisitor.h>
#include <clang/Lex/Lexer.h>

#include <cctype>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "compiler/emit/specialiser/analysis.h"
#include "compiler/emit/specialiser/literal.h"
#include "compiler/emit/specialiser/portability.h"
#include "error.h"

namespace llmc::emit {

// Files that exist only in the in-memory file system that is given to Clang. No real folder has this name, so none on
// disk is read by accident.
inline constexpr char kKernelPath[] = "/llmc-specialiser/kernel.cu";
inline constexpr char kParamsPath[] = "/llmc-specialiser/params.h";
inline constexpr char kStubPath[] = "/llmc-specialiser/cuda_stub.h";

/// Returns "file:line" with the real names of the in-memory files.
inline std::string place(const clang::SourceManager& sources, clang::SourceLocation at, const SpecialiseInput& input) {
  const clang::PresumedLoc where = sources.getPresumedLoc(sources.getExpansionLoc(at));
  if (where.isInvalid()) return input.template_file;
  std::string file = where.getFilename();
  if (file == kKernelPath) file = input.template_file;
  if (file == kParamsPath) file = "params.h of " + input.entry;
  return file + ":" + std::to_string(where.getLine());
}

/// Returns the literal of this value and type; nothing for types and values without one (infinity, the least int).
inline std::optional<std::string> literal(const clang::APValue& value, clang::QualType type) {
  const auto* builtin = type->getAs<clang::BuiltinType>();
  if (!builtin) return std::nullopt;
  if (value.isFloat()) {
    if (!value.getFloat().isFinite()) return std::nullopt;
    if (builtin->getKind() == clang::BuiltinType::Float) return literal_text(value.getFloat().convertToFloat());
    if (builtin->getKind() == clang::BuiltinType::Double) return literal_text(value.getFloat().convertToDouble());
    return std::nullopt;
  }
  if (!value.isInt()) return std::nullopt;
  const llvm::APSInt& number = value.getInt();
  if (number.isSigned() && number.isMinSignedValue()) return std::nullopt;
  const std::string digits = llvm::toString(number, 10);
  if (builtin->getKind() == clang::BuiltinType::Bool) return number.getBoolValue() ? "true" : "false";
  static const std::map<clang::BuiltinType::Kind, const char*> suffixes = {
      {clang::BuiltinType::Int, ""},     {clang::BuiltinType::UInt, "u"},      {clang::BuiltinType::Long, "L"},
      {clang::BuiltinType::ULong, "UL"}, {clang::BuiltinType::LongLong, "LL"}, {clang::BuiltinType::ULongLong, "ULL"}};
  const auto suffix = suffixes.find(builtin->getKind());
  return suffix == suffixes.end() ? std::nullopt : std::optional(digits + suffix->second);
}

class Collector : public clang::RecursiveASTVisitor<Collector> {
  using Base = clang::RecursiveASTVisitor<Collector>;

 public:
  Collector(clang::ASTContext& context, const SpecialiseInput& input, Analysis& analysis)
      : context_(context),
        sources_(context.getSourceManager()),
        input_(input),
        analysis_(analysis),
        portability_(sources_) {
    if (auto params = sources_.getFileManager().getOptionalFileRef(kParamsPath))
      params_ = sources_.translateFile(*params);
  }

  bool TraverseStmt(clang::Stmt* statement) {
    const auto* expression = llvm::dyn_cast_or_null<clang::Expr>(statement);
    return (expression && mentions_params(expression) && fold(expression)) || Base::TraverseStmt(statement);
  }

  /// Skips implicit instantiations. Clang lists them after the template's own declaration, perhaps before params.h,
  /// with arguments that are visited at the use.
  bool TraverseVarTemplateSpecializationDecl(clang::VarTemplateSpecializationDecl* variable) {
    return variable->getTemplateSpecializationKind() == clang::TSK_ImplicitInstantiation ||
           Base::TraverseVarTemplateSpecializationDecl(variable);
  }

  /// Folds the template's constants that depend on the instruction set alone, if that is known.
  bool TraverseVarDecl(clang::VarDecl* variable) {
    const bool constant = for_one_arch() && variable->isConstexpr() && variable->getDeclContext()->isFileContext() &&
                          in_template(variable->getLocation()) && variable->getType()->isIntegralOrEnumerationType();
    const clang::Expr* value = constant ? variable->getInit() : nullptr;
    if (!value || constant_of(value->IgnoreParenImpCasts()) || llvm::isa<clang::IntegerLiteral>(value) || !fold(value))
      return Base::TraverseVarDecl(variable);
    return WalkUpFromVarDecl(variable);
  }

  bool VisitCompoundStmt(clang::CompoundStmt* block) {
    for (const clang::Stmt* child : block->body()) in_block_.insert(child);
    return true;
  }

  bool TraverseIfStmt(clang::IfStmt* branch) {
    const auto taken = branch->getNondiscardedCase(context_);
    // A condition that differs between machines stays, and both its branches are specialised.
    const bool known = taken && in_template(branch->getBeginLoc()) && decided(branch->getCond());
    if (!known) return Base::TraverseIfStmt(branch);
    if (branch->hasInitStorage() || branch->hasVarStorage()) {
      fail(branch->getBeginLoc(), "`if constexpr` declares a variable in its condition; declare it before");
    }
    Prune prune;
    prune.statement = whole(branch);
    prune.in_block = in_block_.contains(branch);
    // `else if constexpr` chains end at the first branch that holds.
    const clang::Stmt* kept = *taken;
    while (const auto* next = llvm::dyn_cast_or_null<clang::IfStmt>(kept)) {
      const auto inner = next->getNondiscardedCase(context_);
      if (!inner || next->hasInitStorage() || next->hasVarStorage() || !decided(next->getCond())) break;
      kept = *inner;
    }
    if (kept) {
      prune.taken = whole(kept);
      note_declarations(kept, prune);
    }
    analysis_.prunes.push_back(prune);
    return !kept || TraverseStmt(const_cast<clang::Stmt*>(kept));
  }

  bool TraverseStaticAssertDecl(clang::StaticAssertDecl* check) {
    const auto range = edited(check->getSourceRange());
    const clang::Expr* condition = check->getAssertExpr();
    if (!range || !mentions_params(condition) || !decided(condition)) return Base::TraverseStaticAssertDecl(check);
    analysis_.checked_asserts.push_back(*range);
    return true;
  }

  bool VisitVarDecl(clang::VarDecl* variable) {
    if (!is_param(variable)) return true;
    const clang::Expr* value = variable->getInit()->IgnoreImplicit();
    // The initialiser's own text, if it is a single literal of the constant's type.
    const auto* sign = llvm::dyn_cast<clang::UnaryOperator>(value);
    const bool negative = sign && sign->getOpcode() == clang::UO_Minus;
    const clang::Expr* bare = negative ? sign->getSubExpr() : value;
    const bool plain = llvm::isa<clang::IntegerLiteral, clang::FloatingLiteral, clang::CXXBoolLiteralExpr>(bare) &&
                       context_.hasSameUnqualifiedType(value->getType(), variable->getType());
    const clang::APValue* constant = variable->evaluateValue();
    auto text = constant ? literal(*constant, variable->getType()) : std::nullopt;
    if (!text) fail(variable->getLocation(), "no literal has the type and value of " + variable->getNameAsString());
    if (plain) {
      text = clang::Lexer::getSourceText(clang::CharSourceRange::getTokenRange(value->getSourceRange()), sources_,
                                         context_.getLangOpts());
    }
    analysis_.literals[variable->getNameAsString()] = *text;
    return true;
  }

  /// Records the parameter list of the kernel's function, with the type aliases of params.h replaced by their types.
  bool VisitFunctionDecl(clang::FunctionDecl* function) {
    if (!in_template(function->getLocation()) || function->getNameAsString() != input_.template_name) return true;
    clang::PrintingPolicy policy(context_.getLangOpts());
    policy.SuppressScope = true;
    analysis_.entry.emplace();
    for (const clang::ParmVarDecl* parameter : function->parameters()) {
      std::string text;
      llvm::raw_string_ostream out(text);
      parameter->getType().getCanonicalType().print(out, policy, parameter->getName());
      *analysis_.entry += (analysis_.entry->empty() ? "" : ", ") + text;
    }
    return true;
  }

  bool VisitTypedefTypeLoc(clang::TypedefTypeLoc type) {
    const clang::FileID file = sources_.getFileID(sources_.getExpansionLoc(type.getBeginLoc()));
    if (is_param(type.getTypedefNameDecl()) && file != sources_.getMainFileID() && file != params_) {
      fail(type.getBeginLoc(), "a header uses the params alias " + type.getTypedefNameDecl()->getNameAsString());
    }
    return true;
  }

  bool VisitUnaryOperator(clang::UnaryOperator* operation) {
    if (operation->getOpcode() != clang::UO_AddrOf) return true;
    if (const clang::VarDecl* constant = constant_of(operation->getSubExpr()); constant && is_param(constant)) {
      fail(operation->getBeginLoc(), "takes the address of the params constant " + constant->getNameAsString());
    }
    return true;
  }

  bool VisitNamedDecl(clang::NamedDecl* named) {
    if (!named->getDeclContext()->isFileContext() || !in_template(named->getLocation())) return true;
    if (!llvm::isa<clang::FunctionDecl, clang::VarDecl, clang::TypedefNameDecl, clang::TagDecl, clang::TemplateDecl>(
            named)) {
      return true;
    }
    Declaration declaration;
    declaration.location = sources_.getFileOffset(sources_.getExpansionLoc(named->getLocation()));
    declaration.always = !named->getDeclName().isIdentifier();
    if (!declaration.always) declaration.names.push_back(named->getNameAsString());
    if (const auto* enumeration = llvm::dyn_cast<clang::EnumDecl>(named)) {
      for (const auto* value : enumeration->enumerators()) declaration.names.push_back(value->getNameAsString());
    }
    analysis_.declarations.push_back(declaration);
    return true;
  }

  bool VisitDeclStmt(clang::DeclStmt* statement) {
    const auto range = edited(statement->getSourceRange());
    if (!range || !in_block_.contains(statement)) return true;
    Declaration declaration{range->begin, *range, {}, false};
    for (const clang::Decl* declared : statement->decls()) {
      const auto* variable = llvm::dyn_cast<clang::VarDecl>(declared);
      const bool constant = (variable && variable->isConstexpr()) || llvm::isa<clang::TypedefNameDecl>(declared);
      const bool marked_unused = variable && variable->hasAttr<clang::UnusedAttr>() && variable->getAttrs().size() == 1;
      if (marked_unused) declaration.statement.begin = before_attribute(declaration.statement.begin);
      // Other attributes may come before the range that Clang reports.
      if (!marked_unused && (!constant || declared->hasAttrs())) return true;
      declaration.names.push_back(llvm::cast<clang::NamedDecl>(declared)->getNameAsString());
    }
    analysis_.declarations.push_back(declaration);
    return true;
  }

 private:
  [[noreturn]] void fail(clang::SourceLocation at, const std::string& what) const {
    throw Failure(Exit::internal, place(sources_, at, input_) + ": " + what);
  }

  bool in_template(clang::SourceLocation at) const {
    return at.isValid() && sources_.getFileID(sources_.getExpansionLoc(at)) == sources_.getMainFileID();
  }

  bool is_param(const clang::Decl* declaration) const {
    return params_.isValid() && declaration->getDeclContext()->isFileContext() &&
           sources_.getFileID(sources_.getExpansionLoc(declaration->getLocation())) == params_;
  }

  /// Returns bytes of the template's text, if the tokens are spelled there (macro arguments are, macro bodies are not).
  std::optional<TextRange> edited(clang::SourceRange tokens) const {
    const auto range = clang::Lexer::makeFileCharRange(clang::CharSourceRange::getTokenRange(tokens), sources_,
                                                       context_.getLangOpts());
    if (range.isInvalid() || sources_.getFileID(range.getBegin()) != sources_.getMainFileID()) return std::nullopt;
    return TextRange{sources_.getFileOffset(range.getBegin()), sources_.getFileOffset(range.getEnd())};
  }

  /// Returns where `[[maybe_unused]]` before a declaration begins: Clang's range may begin after it.
  std::size_t before_attribute(std::size_t begin) const {
    constexpr std::string_view kAttribute = "[[maybe_unused]]";
    std::size_t end = begin;
    while (end > 0 && std::isspace(static_cast<unsigned char>(input_.template_text[end - 1]))) --end;
    const bool before = std::string_view(input_.template_text).substr(0, end).ends_with(kAttribute);
    return before ? end - kAttribute.size() : begin;
  }

  /// Returns the statement with its final semicolon, which Clang attributes to the enclosing one.
  TextRange whole(const clang::Stmt* statement) const {
    auto range = edited(statement->getSourceRange());
    if (!range) fail(statement->getBeginLoc(), "`if constexpr` in a macro cannot be pruned");
    const clang::Stmt* last = statement;
    while (const clang::Stmt* body = tail_of(last)) last = body;
    if (llvm::isa<clang::CompoundStmt, clang::NullStmt, clang::DeclStmt>(last)) return *range;
    const auto semicolon = clang::Lexer::findLocationAfterToken(statement->getEndLoc(), clang::tok::semi, sources_,
                                                                context_.getLangOpts(), false);
    if (semicolon.isInvalid()) fail(statement->getEndLoc(), "no semicolon found after the branch; use braces");
    range->end = sources_.getFileOffset(semicolon);
    return *range;
  }

  /// Returns the statement that ends another one, if there is one.
  static const clang::Stmt* tail_of(const clang::Stmt* statement) {
    if (const auto* s = llvm::dyn_cast<clang::IfStmt>(statement)) return s->getElse() ? s->getElse() : s->getThen();
    if (const auto* s = llvm::dyn_cast<clang::ForStmt>(statement)) return s->getBody();
    if (const auto* s = llvm::dyn_cast<clang::CXXForRangeStmt>(statement)) return s->getBody();
    if (const auto* s = llvm::dyn_cast<clang::WhileStmt>(statement)) return s->getBody();
    if (const auto* s = llvm::dyn_cast<clang::SwitchStmt>(statement)) return s->getBody();
    if (const auto* s = llvm::dyn_cast<clang::AttributedStmt>(statement)) return s->getSubStmt();
    if (const auto* s = llvm::dyn_cast<clang::LabelStmt>(statement)) return s->getSubStmt();
    if (const auto* s = llvm::dyn_cast<clang::SwitchCase>(statement)) return s->getSubStmt();
    if (const auto* s = llvm::dyn_cast<clang::OMPExecutableDirective>(statement)) {
      return s->hasAssociatedStmt() ? s->getRawStmt() : nullptr;
    }
    return nullptr;
  }

  static const clang::VarDecl* constant_of(const clang::Expr* expression) {
    const auto* reference = llvm::dyn_cast<clang::DeclRefExpr>(expression->IgnoreParens());
    return reference ? llvm::dyn_cast<clang::VarDecl>(reference->getDecl()) : nullptr;
  }

  bool mentions_params(const clang::Stmt* statement) const {
    if (const auto* reference = llvm::dyn_cast<clang::DeclRefExpr>(statement)) {
      return llvm::isa<clang::VarDecl>(reference->getDecl()) && is_param(reference->getDecl());
    }
    if (llvm::isa<clang::LambdaExpr>(statement)) return false;  // its body is visited separately
    for (const clang::Stmt* child : statement->children()) {
      if (child && mentions_params(child)) return true;
    }
    return false;
  }

  /// Whether the text is compiled for one instruction set only, so that its vectors are known.
  bool for_one_arch() const { return input_.target == spec::TargetKind::cpu && !input_.arch.empty(); }

  bool is_of_arch(const clang::VarDecl* constant) const {
    return for_one_arch() && portability_.of_target(constant->getLocation()) &&
           constant->getType()->isIntegralOrEnumerationType();
  }

  /// Whether the constant is the same on every machine that may compile the text. Records the constants of the
  /// instruction set that this depends on.
  bool decided(const clang::Stmt* statement) {
    if (portability_.holds(statement)) return true;
    if (!for_one_arch()) return false;
    std::set<const clang::VarDecl*> found;
    portability_.bases(statement, found);
    if (found.empty()) return false;  // a macro, or the size of a type: not checkable
    for (const clang::VarDecl* base : found) {
      const clang::APValue* value = base->evaluateValue();
      if (const auto text = value ? literal(*value, base->getType()) : std::nullopt)
        analysis_.of_arch[base->getNameAsString()] = *text;
    }
    return true;
  }

  /// Whether the expression is constant and converts nothing, so that its value is what a reader expects.
  bool foldable(const clang::Expr* e) {
    if (e->isInstantiationDependent()) return false;
    if (const auto* parens = llvm::dyn_cast<clang::ParenExpr>(e)) return foldable(parens->getSubExpr());
    if (const auto* constant = llvm::dyn_cast<clang::ConstantExpr>(e)) return foldable(constant->getSubExpr());
    if (llvm::isa<clang::IntegerLiteral, clang::FloatingLiteral, clang::CXXBoolLiteralExpr>(e)) return true;
    if (llvm::isa<clang::UnaryExprOrTypeTraitExpr>(e)) return true;
    if (const auto* cast = llvm::dyn_cast<clang::ImplicitCastExpr>(e)) {
      const auto kind = cast->getCastKind();
      return (kind == clang::CK_LValueToRValue || kind == clang::CK_NoOp) && foldable(cast->getSubExpr());
    }
    if (const auto* cast = llvm::dyn_cast<clang::ExplicitCastExpr>(e)) return foldable(cast->getSubExprAsWritten());
    if (const auto* operation = llvm::dyn_cast<clang::UnaryOperator>(e)) {
      return (operation->isArithmeticOp() || operation->getOpcode() == clang::UO_LNot) &&
             foldable(operation->getSubExpr());
    }
    if (const auto* operation = llvm::dyn_cast<clang::BinaryOperator>(e)) {
      return !operation->isAssignmentOp() && !operation->isCommaOp() && foldable(operation->getLHS()) &&
             foldable(operation->getRHS());
    }
    if (const auto* choice = llvm::dyn_cast<clang::ConditionalOperator>(e)) {
      return foldable(choice->getCond()) && foldable(choice->getTrueExpr()) && foldable(choice->getFalseExpr());
    }
    if (const auto* call = llvm::dyn_cast<clang::CallExpr>(e)) {
      const clang::FunctionDecl* function = call->getDirectCallee();
      if (!function || !function->isConstexpr() ||
          llvm::isa<clang::CXXMemberCallExpr, clang::CXXOperatorCallExpr>(call)) {
        return false;
      }
      for (const clang::Expr* argument : call->arguments()) {
        if (!foldable(argument)) return false;
      }
      return true;
    }
    const clang::VarDecl* constant = constant_of(e);
    return constant && constant->isConstexpr() && constant->getType()->isArithmeticType() &&
           (is_param(constant) || in_template(constant->getLocation()) || is_of_arch(constant));
  }

  /// Records the fold of an expression that mentions a params name. Returns false if only its parts can be folded.
  bool fold(const clang::Expr* expression) {
    const bool direct = constant_of(expression->IgnoreParenImpCasts()) != nullptr;
    const auto range = edited(expression->getSourceRange());
    if (llvm::isa<clang::DeclRefExpr>(expression) && !range) {
      const bool header = !in_template(expression->getBeginLoc());
      fail(expression->getBeginLoc(), "params name " + constant_of(expression)->getNameAsString() +
                                          (header ? " is used by a header" : " is in a macro body"));
    }
    if (!range) return false;
    if (llvm::isa<clang::DeclRefExpr>(expression)) {
      // A dependent or lvalue context takes the literal itself.
      analysis_.folds.push_back({*range, analysis_.literals.at(constant_of(expression)->getNameAsString())});
      return true;
    }
    if (!foldable(expression) || !decided(expression)) return false;
    std::optional<std::string> text;
    if (direct) {
      text = analysis_.literals.at(constant_of(expression->IgnoreParenImpCasts())->getNameAsString());
    } else {
      clang::Expr::EvalResult result;
      if (expression->EvaluateAsConstantExpr(result, context_)) text = literal(result.Val, expression->getType());
    }
    if (!text) return false;
    analysis_.folds.push_back({*range, *text});
    return true;
  }

  /// Records the names that the branch declares directly, which decide whether its braces can be removed.
  void note_declarations(const clang::Stmt* kept, Prune& prune) const {
    const auto* block = llvm::dyn_cast<clang::CompoundStmt>(kept);
    prune.braced = block != nullptr;
    prune.must_scope = llvm::isa<clang::DeclStmt>(kept);
    if (!block) return;
    for (const clang::Stmt* child : block->body()) {
      prune.must_scope |= llvm::isa<clang::LabelStmt>(child);
      const auto* statement = llvm::dyn_cast<clang::DeclStmt>(child);
      if (!statement) continue;
      for (const clang::Decl* declared : statement->decls()) {
        const auto* variable = llvm::dyn_cast<clang::VarDecl>(declared);
        prune.must_scope |= llvm::isa<clang::DecompositionDecl>(declared) ||
                            (variable && variable->needsDestruction(context_) != clang::QualType::DK_none);
        if (const auto* named = llvm::dyn_cast<clang::NamedDecl>(declared))
          prune.declared.push_back(named->getNameAsString());
      }
    }
  }

  clang::ASTContext& context_;
  const clang::SourceManager& sources_;
  const SpecialiseInput& input_;
  Analysis& analysis_;
  Portability portability_;
  clang::FileID params_;
  std::set<const clang::Stmt*> in_block_;
};

}  // namespace llmc::emit

// Applies the specialiser's rules as edits of the template's text; analysis.h has Clang's results.
#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "compiler/emit/specialiser/analysis.h"
#include "compiler/emit/specialiser/edits.h"
#include "compiler/emit/specialiser/layout.h"
#include "compiler/emit/specialiser/specialiser.h"
#include "compiler/emit/specialiser/tokens.h"
#include "error.h"

namespace llmc::emit {
namespace {

/// A declaration that may be dropped: one at namespace scope, or a local one inside such a one.
struct Item {
  TextRange range;
  std::size_t parent;  // index of the enclosing item; its own index at namespace scope
  std::set<std::string_view> names;
  bool live = false;
};

std::string declared(const SpecialiseInput& input, const Analysis& analysis) {
  if (!analysis.entry)
    throw Failure(Exit::internal, input.template_file + ": the template has no function " + input.template_name);
  std::string text = format("LLMC_KERNEL " + input.entry + "(" + *analysis.entry + ");\n");
  text.pop_back();
  return text;
}

/// Expands the params that are macros in the template's text. Without such a param kFurtherOperands is nothing.
SpecialiseInput expanded(SpecialiseInput input) {
  std::map<std::string, std::string, std::less<>> macros = {{kFurtherOperands, ""}};
  for (const Param& param : input.params) {
    if (param.type != "macro") continue;
    if (params_read(input.template_text, {param}).empty())
      throw Failure(Exit::internal, input.template_file + ":1: the template has no " + param.name);
    macros[param.name] = param.value;
  }
  std::erase_if(input.params, [](const Param& param) { return param.type == "macro"; });
  std::string text;
  std::size_t done = 0;
  for (const Token& token : tokenize(input.template_text)) {
    const auto macro = macros.find(token.text);
    if (macro == macros.end()) continue;
    const bool list = macro->first == kFurtherOperands;  // begins with a comma
    const std::size_t begin = list ? back_over_space(input.template_text, token.begin) : token.begin;
    text += input.template_text.substr(done, begin - done) + macro->second;
    done = token.end;
  }
  input.template_text = text + input.template_text.substr(done);
  return input;
}

class Specialiser {
 public:
  explicit Specialiser(SpecialiseInput input)
      : input_(std::move(input)),
        text_(input_.template_text),
        tokens_(tokenize(text_)),
        layout_(lay_out(tokens_)),
        edits_(text_, input_.template_file) {}

  Specialised run() {
    check_names();
    check_directives();
    analysis_ = analyse(input_);
    drop_params_include();
    for (const TextRange& range : analysis_.checked_asserts)
      edits_.remove(with_comments(text_, tokens_, with_semicolon(range)));
    for (const Prune& prune : analysis_.prunes) apply(prune);
    for (const Fold& fold : analysis_.folds) edits_.replace(fold.expression, in_context(fold));
    fold_unparsed();
    drop_unreachable();
    print_head();
    rename_entry();
    std::string result;
    for (const std::string& line : input_.header) result += line.empty() ? "//\n" : "// " + line + "\n";
    if (!result.empty()) result += "\n";
    const std::string body = edits_.apply();
    return {format(result + body.substr(skip_space(body, 0))), declared(input_, analysis_)};
  }

 private:
  [[noreturn]] void fail(std::size_t at, const std::string& what) const {
    throw Failure(Exit::internal, input_.template_file + ":" + std::to_string(line_of(text_, at)) + ": " + what);
  }

  /// Refuses #if: its result may differ on another machine.
  void check_directives() const {
    for (const Token& token : tokens_) {
      if (token.kind != TokenKind::directive) continue;
      std::string bare(token.text);
      std::erase_if(bare, [](char c) { return c == ' ' || c == '\t'; });
      if (bare.starts_with("#if"))
        fail(token.begin, "a template may not use #if; put it into a header of runtime/device/");
    }
  }

  void check_names() const {
    for (const std::string& name : {input_.template_name, input_.entry}) {
      if (!is_identifier(name))
        throw Failure(Exit::internal, input_.template_file + ": not a function name: '" + name + "'");
    }
    for (const Param& param : input_.params)
      if (!is_identifier(param.name)) fail(0, "not a params name: '" + param.name + "'");
    const std::vector<std::string> read = params_read(with_values(text_, input_.params), input_.params);
    for (const Param& param : input_.params) {
      if (std::find(read.begin(), read.end(), param.name) == read.end()) {
        fail(0, "the template never reads the param " + param.name + " of " + input_.entry);
      }
    }
    const bool entry =
        std::any_of(tokens_.begin(), tokens_.end(), [&](const Token& t) { return t.text == input_.template_name; });
    if (!entry) fail(0, "the template does not define " + input_.template_name);
  }

  void drop_params_include() {
    for (const Token& token : tokens_) {
      if (token.kind != TokenKind::directive) continue;
      std::string bare(token.text);
      std::erase_if(bare, [](char c) { return c == ' ' || c == '\t'; });
      if (bare != "#include\"params.h\"") continue;
      const std::size_t end = past_trailing_comment(text_, tokens_, token.end);
      edits_.remove({token.begin, std::min(text_.find('\n', end), text_.size() - 1) + 1});
    }
  }

  TextRange with_semicolon(TextRange range) const {
    const std::size_t next = skip_space(text_, range.end);
    if (next < text_.size() && text_[next] == ';') range.end = next + 1;
    return range;
  }

  // Rule 1: only the taken branch of `if constexpr` stays, without braces if that changes no scope.

  void apply(const Prune& prune) {
    const TextRange& taken = prune.taken;
    const bool empty = taken.begin == taken.end ||
                       (prune.braced && skip_space(text_, taken.begin + 1) + 1 == taken.end) ||
                       text_[taken.begin] == ';';
    if (empty) {
      edits_.remove(prune.in_block ? with_comments(text_, tokens_, prune.statement) : prune.statement);
      if (!prune.in_block) edits_.insert(prune.statement.begin, "{}");
      return;
    }
    if (prune.braced && prune.in_block && braces_may_go(prune)) {
      const std::size_t end = past_trailing_comment(text_, tokens_, prune.statement.end);
      edits_.remove({prune.statement.begin, skip_space(text_, taken.begin + 1)});
      edits_.remove({back_over_space(text_, taken.end - 1), end});
      if (text_.find_first_not_of(" \t", end) != text_.find('\n', end)) edits_.insert(end, "\n");
      return;
    }
    edits_.remove({prune.statement.begin, taken.begin});
    edits_.remove({taken.end, prune.statement.end});
    if (!prune.braced && (!prune.in_block || prune.must_scope)) {
      edits_.insert(taken.begin, "{ ");
      edits_.insert(taken.end, " }");
    }
  }

  /// Whether no name that the branch declares is mentioned elsewhere in the function's remaining text.
  bool braces_may_go(const Prune& prune) const {
    if (prune.must_scope) return false;
    if (prune.declared.empty()) return true;
    for (const TextRange& chunk : layout_.chunks) {
      if (!chunk.contains(prune.statement.begin)) continue;
      for (const Token& token : tokens_) {
        if (!chunk.contains(token.begin) || prune.statement.contains(token.begin) || pruned(token.begin)) continue;
        if (std::find(prune.declared.begin(), prune.declared.end(), token.text) != prune.declared.end()) return false;
      }
    }
    return true;
  }

  bool pruned(std::size_t at) const {
    return std::any_of(analysis_.prunes.begin(), analysis_.prunes.end(),
                       [&](const Prune& p) { return p.statement.contains(at) && !p.taken.contains(at); });
  }

  // Rule 2: constant expressions become literals.

  /// Returns the literal, in parentheses if it is negative and an operator is next to it.
  std::string in_context(const Fold& fold) const {
    if (fold.literal[0] != '-') return fold.literal;
    const std::size_t before = back_over_space(text_, fold.expression.begin);
    const std::size_t after = skip_space(text_, fold.expression.end);
    const bool opens = before > 0 && std::string_view("(,={[<").find(text_[before - 1]) != std::string_view::npos;
    const bool returns = before >= 6 && text_.compare(before - 6, 6, "return") == 0;
    const bool closes = after < text_.size() && std::string_view("),;}]>").find(text_[after]) != std::string_view::npos;
    return (opens || returns) && closes ? fold.literal : "(" + fold.literal + ")";
  }

  /// Replaces names by literals in pragmas and in macro arguments that never reach Clang's tree. Uses in a macro's body
  /// are not replaced, because their context is unknown.
  void fold_unparsed() {
    for (const Token& token : tokens_) {
      if (token.kind == TokenKind::identifier) fold_name(token, in_macro_use(token.begin));
      if (token.kind != TokenKind::directive) continue;
      const bool pragma = token.text.substr(1, 16).find("pragma") != std::string_view::npos;
      for (const Token& name : directive_identifiers(token)) fold_name(name, pragma);
    }
  }

  bool in_macro_use(std::size_t at) const {
    return std::any_of(analysis_.macro_uses.begin(), analysis_.macro_uses.end(),
                       [&](const TextRange& r) { return r.contains(at); });
  }

  void fold_name(const Token& name, bool replaceable) {
    const auto literal = analysis_.literals.find(std::string(name.text));
    if (literal == analysis_.literals.end() || edits_.touches(name.begin)) return;
    if (!replaceable) {
      fail(name.begin, "the params name " + literal->first +
                           " cannot be replaced here (a macro body, or another declaration of that name)");
    }
    const Fold fold{{name.begin, name.end}, literal->second};
    edits_.replace(fold.expression, in_context(fold));
  }

  // Rule 3: declarations that the entry cannot reach are dropped. Reachability is by name, so an overload too many may
  // stay, never one too few.

  void drop_unreachable() {
    std::vector<Item> items;
    for (const TextRange& chunk : layout_.chunks) items.push_back({chunk, items.size(), {}, false});
    const std::size_t chunks = items.size();
    std::vector<bool> droppable(chunks, false), kept(chunks, false);
    for (const Declaration& declaration : analysis_.declarations) {
      for (std::size_t i = 0; i < chunks; ++i) {
        if (!items[i].range.contains(declaration.location)) continue;
        if (declaration.statement.begin != declaration.statement.end) {
          items.push_back({declaration.statement, i, {declaration.names.begin(), declaration.names.end()}, false});
        } else {
          droppable[i] = true;
          kept[i] = kept[i] || declaration.always;
          items[i].names.insert(declaration.names.begin(), declaration.names.end());
        }
      }
    }
    for (std::size_t i = 0; i < chunks; ++i) {
      items[i].live = !droppable[i] || kept[i] || items[i].names.contains(input_.template_name);
    }
    mark_live(items);
    for (const Item& item : items) {
      if (!item.live && items[item.parent].live) edits_.remove(with_comments(text_, tokens_, item.range));
      if (!item.live && item.parent == static_cast<std::size_t>(&item - items.data())) {
        edits_.remove(with_comments(text_, tokens_, item.range));
      }
    }
  }

  void mark_live(std::vector<Item>& items) {
    // Names in each item's own remaining text; directives between declarations belong to no item.
    std::vector<std::set<std::string_view>> said(items.size());
    for (const Token& token : tokens_) {
      if (token.kind == TokenKind::directive) {
        for (const Token& name : directive_identifiers(token)) live_names_.insert(name.text);
      }
      if (token.kind != TokenKind::identifier || edits_.touches(token.begin)) continue;
      const Item* owner = nullptr;
      for (const Item& item : items) {
        if (item.range.contains(token.begin) && (!owner || item.range.begin >= owner->range.begin)) owner = &item;
      }
      if (owner) said[owner - items.data()].insert(token.text);
    }
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (items[i].live) live_names_.insert(said[i].begin(), said[i].end());
    }
    for (bool changed = true; changed;) {
      changed = false;
      for (std::size_t i = 0; i < items.size(); ++i) {
        const bool parent_lives = items[i].parent == i || items[items[i].parent].live;
        const bool named = std::any_of(items[i].names.begin(), items[i].names.end(),
                                       [&](std::string_view name) { return live_names_.contains(name); });
        if (items[i].live || !parent_lives || !named) continue;
        items[i].live = changed = true;
        live_names_.insert(said[i].begin(), said[i].end());
      }
    }
  }

  /// Prints the head of namespace llmc: the params aliases that the remaining text mentions, in the params' order, and
  /// its assumptions about the instruction set.
  void print_head() {
    std::set<std::string, std::less<>> used(live_names_.begin(), live_names_.end());
    std::vector<std::string> lines;
    // An alias may mention only earlier ones, so going backwards finds all.
    for (auto param = input_.params.rbegin(); param != input_.params.rend(); ++param) {
      if (param->type != "using" || !used.contains(param->name)) continue;
      for (const Token& token : tokenize(param->value)) {
        if (analysis_.literals.contains(std::string(token.text)))
          fail(0, "the alias " + param->name + " reads a params constant");
        used.emplace(token.text);
      }
      lines.push_back("using " + param->name + " = " + param->value + ";\n");
    }
    std::string text;
    for (auto line = lines.rbegin(); line != lines.rend(); ++line) text += *line;
    std::string known;
    for (const auto& [name, value] : analysis_.of_arch) {
      const bool flag = value == "true" || value == "false";
      known += known.empty() ? "" : " && ";
      known += flag ? (value == "true" ? "" : "!") + name : name + " == " + value;
    }
    if (!known.empty())
      text += (text.empty() ? "" : "\n") + ("static_assert(" + known) + ", \"this is for " + input_.arch + "\");\n";
    if (text.empty()) return;
    if (!layout_.namespace_begin) fail(0, "the template has no `namespace llmc {`");
    edits_.insert(*layout_.namespace_begin, "\n\n" + text);
  }

  // Rule 4: the entry gets the instance's name.

  void rename_entry() {
    const std::string& from = input_.template_name;
    if (from == input_.entry) return;
    for (const Token& token : tokens_) {
      if (token.kind == TokenKind::identifier && token.text == from)
        edits_.replace({token.begin, token.end}, input_.entry);
      if (token.kind != TokenKind::comment) continue;
      for (const Token& word : words(token)) {
        if (word.text == from && means_entry(word)) edits_.replace({word.begin, word.end}, input_.entry);
      }
    }
  }

  static std::vector<Token> words(const Token& comment) {
    std::vector<Token> result;
    for (std::size_t at = 0; at < comment.text.size(); ++at) {
      std::size_t end = at;
      while (end < comment.text.size() && in_name(comment.text[end])) ++end;
      if (end == at) continue;
      result.push_back(
          {TokenKind::identifier, comment.begin + at, comment.begin + end, comment.text.substr(at, end - at)});
      at = end;
    }
    return result;
  }

  /// Whether a word in a comment is the entry's name: `rope()`, `rope` in backticks and names with an underscore are; a
  /// bare `rope` may be English.
  bool means_entry(const Token& word) const {
    const char after = word.end < text_.size() ? text_[word.end] : ' ';
    return word.text.find('_') != std::string_view::npos || after == '(' || after == '`';
  }

  const SpecialiseInput input_;
  const std::string& text_;
  std::vector<Token> tokens_;
  SourceLayout layout_;
  Edits edits_;
  Analysis analysis_;
  std::set<std::string_view> live_names_;
};

}  // namespace

Specialised specialise(const SpecialiseInput& input) { return Specialiser(expanded(input)).run(); }

std::string declaration(const SpecialiseInput& input) {
  const SpecialiseInput whole = expanded(input);
  return declared(whole, analyse(whole));
}

}  // namespace llmc::emit

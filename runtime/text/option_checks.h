// Validators for option values that CLI11 lacks.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <vector>

namespace llmc {

/// Accepts a finite number from `low` (or, with `above`, greater than it) to `high`. CLI11's ranges accept NaN; this
/// rejects it.
inline CLI::Validator finite(double low, bool above, double high) {
  const std::string wanted = fmt::format("{} {} and at most {}", above ? "above" : "of at least", low, high);
  return {[low, above, high, wanted](std::string& text) {
            char* end = nullptr;
            const double value = std::strtod(text.c_str(), &end);
            const bool good = !text.empty() && *end == '\0' && (above ? value > low : value >= low) && value <= high;
            return good ? "" : fmt::format("'{}' is not a number {}", text, wanted);
          },
          ""};
}
inline CLI::Validator finite_from(double low, double high) { return finite(low, false, high); }
inline CLI::Validator finite_above(double low, double high) { return finite(low, true, high); }

/// CLI11's names of the types of integers, as in "N:INT in [1 - 8]".
constexpr char kIntegerType[] = "INT", kUnsignedType[] = "UINT";

/// Replaces the text of an integer by its decimal digits. CLI11 reads a leading zero as octal, and clamps what is too
/// large.
template <class Integer>
CLI::Validator whole_number() {
  return {[](std::string& text) -> std::string {
            if (std::is_unsigned_v<Integer> && text.starts_with('-'))
              return fmt::format("'{}' is negative. Write a whole number from 0 on, such as {}", text,
                                 text.size() > 1 ? text.substr(1) : "42");
            Integer value = 0;
            const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
            if (rest != text.data() + text.size() || error == std::errc::invalid_argument)
              return fmt::format("'{}' is not a whole number in decimal digits", text);
            if (error != std::errc()) return fmt::format("'{}' is too large", text);
            text = std::to_string(value);
            return "";
          },
          ""};
}

/// Makes the app and its commands read integers by whole_number(). Call it before refuse_empty_values(): the last
/// transformation is applied first, also that of an option with a notation of its own, which names its type otherwise.
inline void read_decimal_integers(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    const std::string type = option->get_type_name();
    if (type.find(kUnsignedType) != std::string::npos)
      option->transform(whole_number<std::uint64_t>());
    else if (type.find(kIntegerType) != std::string::npos)
      option->transform(whole_number<std::int64_t>());
  }
  for (CLI::App* command : app.get_subcommands(nullptr)) read_decimal_integers(*command);
}

constexpr char kEmptyValue[] = "is empty. Give it a value, or leave it out";

/// Makes the app and its commands refuse an empty value, as an unset variable in a script leaves it, for every option
/// and argument. Uses a transformation, because CLI11 applies those before all checks.
inline void refuse_empty_values(CLI::App& app) {
  for (CLI::Option* option : app.get_options())
    if (option->get_items_expected_max() > 0)
      option->transform(
          {[](std::string& text) { return text.empty() ? std::string(kEmptyValue) : std::string(); }, ""});
  for (CLI::App* command : app.get_subcommands(nullptr)) refuse_empty_values(*command);
}

/// The command that was parsed last, such as "checkpoint" and below it "export".
inline const CLI::App& parsed_command(const CLI::App& app) {
  const CLI::App* command = &app;
  while (!command->get_subcommands().empty()) command = command->get_subcommands().back();
  return *command;
}

/// Names of the commands below one, or below a program.
inline std::vector<std::string> names_of_commands(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands(nullptr)) names.push_back(command->get_name());
  return names;
}

/// Long names of a command's options, such as "--steps".
inline std::vector<std::string> long_options(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

/// Turns `version`, `help` and `help COMMAND`, which git has, into options of a program.
inline void spell_as_options(const CLI::App& app, std::vector<const char*>& words) {
  const auto is = [&](std::size_t i, std::string_view word) { return i < words.size() && word == words[i]; };
  if (words.size() == 2 && is(1, "version")) words[1] = "--version";
  if (!is(1, "help")) return;
  words.erase(words.begin() + 1);
  const std::vector<std::string> commands = names_of_commands(app);
  // An unknown command is an error, which --help would hide.
  if (words.size() == 1 || std::ranges::find(commands, words[1]) != commands.end()) words.push_back("--help");
}

/// Parses a command line without empty values, and with integers in decimal. Throws what CLI11 throws.
inline void parse_words(CLI::App& app, int argc, const char* const* argv) {
  read_decimal_integers(app);
  refuse_empty_values(app);
  for (int i = 1; i < argc; ++i) {  // of "--option=" CLI11 takes the next word for the value
    const std::string word = argv[i];
    if (word.size() > 3 && word.starts_with("--") && word.find('=') == word.size() - 1)
      throw CLI::ValidationError(word.substr(0, word.size() - 1), kEmptyValue);
  }
  app.parse(argc, argv);
}

}  // namespace llmc

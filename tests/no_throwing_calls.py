#!/usr/bin/env python3
"""Checks that throwing calls of std::filesystem occur only in runtime/files/disk.cpp, which names the path and the reason. Also
checks that messages use to_stderr() instead of fmt::print(stderr, ...), which throws if standard error cannot be written.

    tests/no_throwing_calls.py SOURCE_FOLDER

Elsewhere a call has an error_code as its last argument, or a file_status as its only one.
"""
import pathlib
import re
import sys

HOME = "runtime/files/disk.cpp"
CALLS = (
    "absolute|canonical|weakly_canonical|relative|proximate|copy|copy_file|copy_symlink|create_directories|create_directory|"
    "create_directory_symlink|create_hard_link|create_symlink|current_path|equivalent|exists|file_size|hard_link_count|"
    "is_block_file|is_character_file|is_directory|is_empty|is_fifo|is_other|is_regular_file|is_socket|is_symlink|"
    "last_write_time|permissions|read_symlink|remove|remove_all|rename|resize_file|space|status|symlink_status|"
    "temp_directory_path|directory_iterator|recursive_directory_iterator")
CALL = re.compile(rf"\b(?:fs|filesystem)::({CALLS})\b(?:\s+\w+)?\s*\(")
# Advancing an iterator throws, however the iterator was made.
LOOP = re.compile(r"\bfor\s*\([^;{}]*:\s*(?:std::filesystem|fs)::(?:recursive_)?directory_iterator\b")
ENTRY = re.compile(
    r"(?:\.|->)(is_regular_file|is_directory|is_symlink|is_fifo|is_other|file_size|last_write_time|symlink_status|hard_link_count)\(\)"
)
MESSAGE = re.compile(r"\bprint\(\s*stderr\b")
STATUS = re.compile(r"file_status (\w+)")
CODE = re.compile(r"error_code&? (\w+)")


def arguments(text, begin):
    """Arguments of the call whose parenthesis ends before `begin`."""
    found, depth, start = [], 0, begin
    for at in range(begin, len(text)):
        if text[at] in "([{":
            depth += 1
        elif text[at] in ")]}":
            if depth == 0:
                found.append(text[start:at].strip())
                return [each for each in found if each]
            depth -= 1
        elif text[at] == "," and depth == 0:
            found.append(text[start:at].strip())
            start = at + 1
    return found


def throwing(text):
    """Offsets of calls that throw."""
    codes, statuses = set(CODE.findall(text)), set(STATUS.findall(text))
    for call in CALL.finditer(text):
        given = arguments(text, call.end())
        iterator = "directory_iterator" in call.group(1)
        if given and given[-1] in codes or iterator and not given:
            continue
        if len(given) == 1 and (given[0] in statuses
                                or re.match(r"(?:std::filesystem|fs)::(?:symlink_)?status\(", given[0])):
            continue
        yield call.start()
    for pattern in (LOOP, ENTRY, MESSAGE):
        yield from (match.start() for match in pattern.finditer(text))


def main():
    for line in ("fs::exists(path)", "std::filesystem::rename(a, b)",
                 "for (const auto& e : fs::directory_iterator(p, error)) {}", "entry.is_regular_file()",
                 "fs::directory_iterator at(folder);", 'fmt::print(stderr, "x")', "fs::exists(f(a, error))"):
        assert list(throwing("std::error_code error;\n" + line)), f"not found: {line}"
    for line in ("fs::exists(path, error)", "fs::directory_iterator at(folder, error), end;", "fs::exists(status)",
                 "it != fs::directory_iterator()", "fs::exists(fs::symlink_status(path, error))", "fs::path(x)"):
        text = "std::error_code error; fs::file_status status;\n" + line
        assert not list(throwing(text)), f"wrongly found: {line}"
    root, wrong, files = pathlib.Path(sys.argv[1]), [], 0
    for folder in ("compiler", "runtime"):
        for file in sorted((root / folder).rglob("*")):
            name = file.relative_to(root).as_posix()
            if not re.search(r"\.(cpp|h|in)$", name) or name == HOME:
                continue
            files += 1
            text = file.read_text()
            wrong += [
                f"{name}:{text.count(chr(10), 0, at) + 1}: {text[text.rfind(chr(10), 0, at) + 1:].splitlines()[0].strip()}"
                for at in throwing(text)
            ]
    assert files > 300, f"only {files} sources under {root}"
    if wrong:
        sys.exit(
            "\n".join(wrong) +
            "\nwrite disk::... of runtime/files/disk.h, or give an error_code; to_stderr() of runtime/text/message.h")


main()

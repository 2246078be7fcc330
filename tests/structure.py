#!/usr/bin/env python3
"""Checks what each room of the sources may hold, how many headers it has, how long its functions are, which files are in the
root, that every unit test is built, and that scripts which a page shows as commands are executable.

    tests/structure.py SOURCE_FOLDER

A rule has the lines that it forbids, where, but in which files or in how many, what to write instead, and a line that it finds and
one that it passes.
"""
import os
import pathlib
import re
import subprocess
import sys
from dataclasses import dataclass

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "mutations"))
from declarations import functions  # noqa: E402


@dataclass
class Rule:
    pattern: str
    folder: str
    instead: str
    found: str
    passed: str
    but: tuple[str, ...] = ()  # files, and folders that end with a slash
    files: int = 0  # that may have such lines


RULES = [
    Rule(
        pattern=r"\bOpKind::|\busing enum\b",
        folder="compiler",
        instead="a member of the row in compiler/ops/op.h that says what decides; for a new op ops::make::...",
        but=(
            "compiler/ops/",
            "compiler/graph/",
            # fuse two named kinds
            "compiler/passes/chunk_loss.cpp",
            "compiler/passes/fuse_adds.cpp",
        ),
        found="if (op.kind == OpKind::linear)",
        passed="ops::row_of(op.kind).updates_weights",
    ),
    Rule(
        pattern=r"\bPart::",
        folder="compiler",
        instead="a walk over plan::Schedule (compiler/plan/schedule.h), or a member of the region or of the op's row",
        files=12,
        found="if (region.part == Part::forward)",
        passed="for (const Item& item : schedule.items)",
    ),
    Rule(
        pattern=r'^\s*#\s*include\s*[<"](?:[^">]*/)?train/',
        folder="compiler",
        instead="what llmc and the training loop share: a header of runtime/program, runtime/run or runtime/step",
        found='#  include "../runtime/train/loop.h"',
        passed='#include "trainer/options.h"  // not train/loop.h',
    ),
]
LOOSE = {"error.h", "version.h"}  # in runtime/ itself
# Of git's files, those in the root itself, beside names that begin with a dot. A user may keep others there.
IN_ROOT = {"CMakeLists.txt", "CONTRIBUTING.md", "LICENSE", "README.md", "quickstart.sh", "setup.sh", "test.sh"}
MOST_HEADERS = 20  # of a room
MOST_LINES = 100  # of a function
# Functions that return a table.
TABLES = {
    "compiler/spec/codes.cpp": ("codes", ),
    "runtime/spec/advice/synonyms.cpp": ("key_synonyms", ),
    "runtime/spec/schema/model.cpp": ("model_rows", ),
    "runtime/spec/schema/surrounding.cpp": ("surrounding_rows", ),
    "runtime/spec/schema/training.cpp": ("training_rows", ),
}
SOURCE = re.compile(r"\.(cpp|h|cu|in)$")
# A line of a block of code, or code in a sentence, that begins with a script.
COMMAND = re.compile(r"^    ((?:\./)?[\w./-]+\.(?:py|sh))\b|`((?:\./)?[\w./-]+\.(?:py|sh)) [^`]+`", re.MULTILINE)
PAGES = ("*.md", "docs/**/*.md", "tests/**/*.md", "exporter/*.md", "tokens/*.md")


def is_exempt(rule, name):
    return any(name.startswith(but) if but.endswith("/") else name == but for but in rule.but)


def sources(root, folder):
    """(path from the root, text)"""
    files = [file for file in sorted((root / folder).rglob("*")) if SOURCE.search(file.name)]
    assert files, f"no sources in {folder}"
    return [(file.relative_to(root).as_posix(), file.read_text()) for file in files]


def broken(rule, texts):
    """Lines that violate the rule, as "file:number: line"."""
    lines = [(name, f"{name}:{number}: {line.strip()}") for name, text in texts if not is_exempt(rule, name)
             for number, line in enumerate(text.splitlines(), 1) if re.search(rule.pattern, line)]
    return [line for _, line in lines] if len({name for name, _ in lines}) > rule.files else []


def crowded(names):
    """Rooms with more headers than a room may have, and headers that are in none."""
    rooms = {}
    for name in names:
        if name.endswith((".h", ".cuh")):
            rooms.setdefault(os.path.dirname(name), set()).add(os.path.basename(name))
    wrong = [
        f"{room}: {len(headers)} headers, of at most {MOST_HEADERS}; give those of one subject a folder"
        for room, headers in sorted(rooms.items()) if len(headers) > MOST_HEADERS
    ]
    return wrong + [f"runtime/{name}: not in a folder" for name in sorted(rooms.get("runtime", set()) - LOOSE)]


def too_long(name, text):
    """Functions of a source with too many lines, as "file:number: name"."""
    return [
        f"{name}:{first}: {'::'.join(path)} has {last - first + 1} lines, of at most {MOST_LINES}"
        for path, first, last in functions(text) if last - first >= MOST_LINES and path[-1] not in TABLES.get(name, ())
    ]


def not_executable(root):
    """Scripts of this tree that a page shows as commands, as "page: script"."""
    for page in sorted({page for pattern in PAGES for page in root.glob(pattern)}):
        for script in sorted({a or b for a, b in COMMAND.findall(page.read_text())}):
            if (root / script).exists() and not os.access(root / script, os.X_OK):
                yield f"{page.relative_to(root).as_posix()}: {script}"


def unbuilt(tests, lists):
    """Unit tests that no list of their folder names. `lists`: text of a folder's lists."""
    return [
        f"{test}: not built; add it to the CMakeLists.txt of its folder" for test in tests
        if not re.search(rf"(?<![\w-]){re.escape(os.path.basename(test))}", lists.get(os.path.dirname(test), ""))
    ]


def astray(names):
    """Files of the root that have a room or belong nowhere, such as a compiler's output."""
    return [
        f"{name}: not a file of the root" for name in sorted(set(names) - IN_ROOT)
        if "/" not in name and not name.startswith(".")
    ]


def of_git(root):
    """Paths of git's files; none of a tree without git."""
    listed = subprocess.run(["git", "-c", "safe.directory=*", "-C", root, "ls-files"], stdout=subprocess.PIPE,
                            stderr=subprocess.DEVNULL, text=True)
    return listed.stdout.splitlines() if listed.returncode == 0 else []


def check_rules(root):
    """Each rule finds what it forbids."""
    for rule in RULES:
        assert re.search(rule.pattern, rule.found), f"not found: {rule.found}"
        assert not re.search(rule.pattern, rule.passed), f"wrongly found: {rule.passed}"
        texts = [(f"{rule.folder}/none_such/{number}.cpp", rule.found) for number in range(rule.files + 1)]
        assert broken(rule, texts) and not broken(rule, texts[1:]), rule.pattern
        for but in rule.but:
            assert (root / but).exists(), f"a rule exempts {but}, which is gone"
    many = [f"runtime/room/{number}.h" for number in range(MOST_HEADERS + 1)]
    assert crowded(many) and not crowded([*many[1:], "runtime/error.h", "runtime/room.cpp"])
    assert crowded(["runtime/loose.h"])
    assert astray(["kernel.cubin", "README.md"]) and not astray([".gitignore", "README.md", "docs/kernel.cubin"])
    built = {"unit/a": "add_executable(t x_test.cpp)"}
    assert unbuilt(["unit/a/test.cpp", "unit/b/x_test.cpp"], built) and not unbuilt(["unit/a/x_test.cpp"], built)
    for lines in (MOST_LINES, MOST_LINES + 1):
        body = "  f(a, {b});\n" * (lines - 2)
        for head in ("int f(int a) {\n", "  static Work C::f(T<int> a) const {\n", "C::C(int a) : a_(a), b_{a} {\n"):
            assert bool(too_long("f.cpp",
                                 "namespace x {\n\n// Sums.\n" + head + body + "}\n\n}\n")) == (lines > MOST_LINES)
    for name, tables in TABLES.items():
        long = {path[-1] for path, first, last in functions((root / name).read_text()) if last - first >= MOST_LINES}
        assert long == set(tables), f"{name} has other long functions: {sorted(long)}"


def main():
    root, wrong = pathlib.Path(sys.argv[1]), []
    check_rules(root)
    product = [source for folder in ("compiler", "runtime", "templates") for source in sources(root, folder)]
    for rule in RULES:
        lines = broken(rule, [source for source in product if source[0].startswith(rule.folder + "/")])
        if lines:
            wrong += lines + [f"write instead: {rule.instead}"]
    wrong += crowded([name for name, _ in product])
    if (root / ".git").exists():
        tracked = of_git(root)
        assert "README.md" in tracked, "git does not list README.md"
        wrong += astray(tracked)
    count = sum(len(functions(text)) for _, text in product)
    assert count > 4000, f"only {count} functions found"
    for name, text in product:
        wrong += too_long(name, text)
    lists = {}
    for file in [*root.glob("tests/unit/*/CMakeLists.txt"), *root.glob("tests/unit/*/*.cmake")]:
        folder = file.parent.relative_to(root).as_posix()
        lists[folder] = lists.get(folder, "") + file.read_text()
    wrong += unbuilt([file.relative_to(root).as_posix() for file in root.glob("tests/unit/*/*_test.cpp")], lists)
    commands = list(not_executable(root))
    if commands:
        wrong += commands + ["write instead: chmod +x, or python3 before its name"]
    if wrong:
        sys.exit("\n".join(wrong))


main()

#!/usr/bin/env python3
"""Checks what each room of the sources may hold, and that scripts which a page shows as commands are executable.

    tests/structure.py SOURCE_FOLDER

A rule has the lines that it forbids, where, but in which files, what to write instead, and a line that it finds and one that it passes.
"""
import os
import pathlib
import re
import sys
from dataclasses import dataclass


@dataclass
class Rule:
    pattern: str
    folder: str
    instead: str
    but: tuple[str, ...]  # files, and folders that end with a slash
    found: str
    passed: str


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
]
SOURCE = re.compile(r"\.(cpp|h|cu|in)$")
# A line of a block of code, or code in a sentence, that begins with a script.
COMMAND = re.compile(r"^    ((?:\./)?[\w./-]+\.(?:py|sh))\b|`((?:\./)?[\w./-]+\.(?:py|sh)) [^`]+`", re.MULTILINE)
PAGES = ("*.md", "docs/**/*.md", "tests/**/*.md", "exporter/*.md", "tokens/*.md")


def is_exempt(rule, name):
    return any(name.startswith(but) if but.endswith("/") else name == but for but in rule.but)


def broken(rule, root):
    """Lines that violate the rule, as "file:number: line"."""
    sources = [file for file in sorted((root / rule.folder).rglob("*")) if SOURCE.search(file.name)]
    assert sources, f"no sources in {rule.folder}"
    for file in sources:
        name = file.relative_to(root).as_posix()
        if is_exempt(rule, name):
            continue
        for number, line in enumerate(file.read_text().splitlines(), 1):
            if re.search(rule.pattern, line):
                yield f"{name}:{number}: {line.strip()}"


def not_executable(root):
    """Scripts of this tree that a page shows as commands, as "page: script"."""
    for page in sorted({page for pattern in PAGES for page in root.glob(pattern)}):
        for script in sorted({a or b for a, b in COMMAND.findall(page.read_text())}):
            if (root / script).exists() and not os.access(root / script, os.X_OK):
                yield f"{page.relative_to(root).as_posix()}: {script}"


def main():
    root, wrong = pathlib.Path(sys.argv[1]), []
    for rule in RULES:
        assert re.search(rule.pattern, rule.found), f"not found: {rule.found}"
        assert not re.search(rule.pattern, rule.passed), f"wrongly found: {rule.passed}"
        for but in rule.but:
            assert (root / but).exists(), f"a rule exempts {but}, which is gone"
        lines = list(broken(rule, root))
        if lines:
            wrong += lines + [f"write instead: {rule.instead}"]
    commands = list(not_executable(root))
    if commands:
        wrong += commands + ["write instead: chmod +x, or python3 before its name"]
    if wrong:
        sys.exit("\n".join(wrong))


main()

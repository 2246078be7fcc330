#!/usr/bin/env python3
"""What may stand in which room of the sources.

    tests/structure.py SOURCE_FOLDER

A rule has the lines that it forbids, where, but in which files, what to write instead, and a line that it finds and one that it passes.
"""
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


def is_exempt(rule, name):
    return any(name.startswith(but) if but.endswith("/") else name == but for but in rule.but)


def broken(rule, root):
    """Lines that the rule forbids, as "file:number: line"."""
    sources = [file for file in sorted((root / rule.folder).rglob("*")) if SOURCE.search(file.name)]
    assert sources, f"no sources in {rule.folder}"
    for file in sources:
        name = file.relative_to(root).as_posix()
        if is_exempt(rule, name):
            continue
        for number, line in enumerate(file.read_text().splitlines(), 1):
            if re.search(rule.pattern, line):
                yield f"{name}:{number}: {line.strip()}"


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
    if wrong:
        sys.exit("\n".join(wrong))


main()

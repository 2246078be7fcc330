#!/usr/bin/env python3
"""Checks the prose that a person reads: README.md, CONTRIBUTING.md and the pages of docs/; of those below tests/ the links.

    tests/prose.py SOURCE_FOLDER              what breaks a rule, one line each
    tests/prose.py SOURCE_FOLDER --counts     the longest and the mean sentence of each page

How sentences are counted: fenced and indented code, tables and headings are left out. A paragraph and a list item are a text each.
A sentence ends at a full stop, question mark or exclamation mark before white space, and where its text ends; a colon or semicolon does
not end one. A word is what white space separates and has a letter or digit. Code between backticks is one word, and a link its label.

A rule is a function from a Text to what is wrong with it. Sources of Texts are listed in SOURCES; of code, first words of comments and
pages that it names are checked.
"""
import pathlib
import re
import sys
from dataclasses import dataclass, field

MEAN, MOST = 22, 40  # words of a sentence: of a page, of any
GLOSSARY = "CONTRIBUTING.md"
CODE = re.compile(r"``.+?``|`[^`]+`")
LINK = re.compile(r"!?\[([^\]]*)\]\(([^)\s]+)\)")


@dataclass
class Text:
    name: str  # relative to the root
    root: pathlib.Path
    text: str
    prose: list[tuple[int, str]] = field(default_factory=list)  # line number and text of each paragraph or list item
    cells: list[tuple[int, str]] = field(default_factory=list)  # rows of tables, and headings


def without_code(text):
    return LINK.sub(lambda found: found.group(1), CODE.sub("`code`", text))


def parse(name, root, text):
    """Splits a Markdown page into prose and cells."""
    page, fence, number, paragraph, in_list = Text(name, root, text), False, 0, None, False
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if stripped.startswith("```"):
            fence, paragraph = not fence, None
        elif fence:
            continue
        elif not stripped:
            paragraph = None
        elif stripped.startswith("|") or line.startswith("#"):
            paragraph = None
            in_list = in_list and not line.startswith("#")
            page.cells.append((number, stripped))
        elif paragraph is None and line.startswith("    ") and not (in_list and re.match(r"\s+([*-]|\d+\.) ", line)):
            continue  # indented code
        elif item := re.match(r"\s*([*-]|\d+\.) +(.*)", line):
            in_list, paragraph = True, [number, item.group(2)]
            page.prose.append(paragraph)
        elif paragraph is None:
            in_list = in_list and line.startswith("  ")
            paragraph = [number, stripped]
            page.prose.append(paragraph)
        else:
            paragraph[1] += " " + stripped
    return page


def sentences(text):
    """(words, sentence) of each sentence."""
    for sentence in re.split(r"(?<=[.!?])[)\"*]*\s+", without_code(text)):
        words = sum(re.search(r"\w", word) is not None for word in sentence.split())
        if words:
            yield words, sentence


def long_sentences(page):
    counts = []
    for number, text in page.prose:
        for words, sentence in sentences(text):
            counts.append(words)
            if words > MOST:
                yield number, f"{words} words, at most {MOST}: {sentence}"
    if counts and sum(counts) / len(counts) > MEAN:
        yield 1, f"{sum(counts) / len(counts):.1f} words a sentence, at most {MEAN}"


def forbidden_words(root):
    """(pattern, what to write instead) of each row in the glossary's second table."""
    table = (root / GLOSSARY).read_text().split("### Words that are not used\n")[1].split("\n#")[0]
    for row in re.findall(r"^\| (?!not\b|---)(.+?) \| (.+?) \|$", table, re.MULTILINE):
        for word in row[0].split(", "):
            yield re.compile(rf"\b{re.escape(word)}\b", 0 if word == "windows" else re.IGNORECASE), row[1]


def private_words(page):
    for pattern, instead in forbidden_words(page.root) if page.name != GLOSSARY else ():
        for number, text in page.prose + page.cells:
            if found := pattern.search(without_code(text)):
                yield number, f'"{found.group()}": write {instead}'


def anchors(text):
    """Those that GitHub gives to the headings of a page."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    return {
        re.sub(r"[^\w\- ]", "",
               heading.strip().lower()).replace(" ", "-")
        for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    }


def dead_links(page):
    for number, text in page.prose + page.cells:
        for _, target in LINK.findall(CODE.sub("`code`", text)):
            if re.match(r"[a-z]+:", target):
                continue
            path, _, anchor = target.partition("#")
            file = (page.root / page.name).parent / path if path else page.root / page.name
            if not file.exists():
                yield number, f"no such file: {target}"
            elif anchor and anchor not in anchors(file.read_text()):
                yield number, f"no such heading: {target}"


def pages(root):
    """The pages, parsed."""
    for file in [root / "README.md", root / GLOSSARY, *sorted((root / "docs").rglob("*.md"))]:
        yield parse(file.relative_to(root).as_posix(), root, file.read_text())


def pages_of_tests(root):
    for file in sorted((root / "tests").rglob("README.md")):
        yield parse(file.relative_to(root).as_posix(), root, file.read_text())


def code(root):
    for folder in ("cmake", "compiler", "docs", "runtime", "specs", "templates", "tests"):
        for file in sorted((root / folder).rglob("*")):
            if file.suffix in (".cpp", ".h", ".cu", ".in", ".py", ".md", ".txt", ".cmake", ".yaml", ".sbatch", ".js"):
                yield Text(file.relative_to(root).as_posix(), root, file.read_text(errors="replace"))


def dead_mentions(text):
    """Pages that a comment or a message names, from the root on."""
    for number, line in enumerate(text.text.splitlines(), 1):
        for path in re.findall(r"\bdocs/[\w/-]+\.md\b", line):
            if not (text.root / path).exists():
                yield number, f"no such page: {path}"


def first_words(text):
    """Comments begin with a verb or a noun of the field."""
    if text.name.endswith((".md", ".yaml")):
        return
    for number, line in enumerate(text.text.splitlines(), 1):
        if re.match(r"\s*(//+|#+|\"\"\") ?What\b", line):
            yield number, 'a comment that begins with "What"'


SOURCES = [(pages, [long_sentences, private_words, dead_links]), (pages_of_tests, [dead_links]),
           (code, [dead_mentions, first_words])]


def check_itself(root):
    """Each rule finds what it forbids, and nothing else."""
    page = parse(
        "README.md", pathlib.Path("."), "# Title of five words here\n\nOne `two words` [three four](a.md).\nFive six! "
        "Seven:\n\n    code is not read\n\n* an item.\n  more of it\n    * nested\n\n| a | cell |\n\n```\nno\n```\n")
    found = [words for _, text in page.prose for words, _ in sentences(text)]
    assert found == [4, 2, 1, 2, 3, 1], found
    assert [text for _, text in page.cells] == ["# Title of five words here", "| a | cell |"], page.cells
    for words, wrong in ((MOST, False), (MOST + 1, True)):
        short = "a. " * 200
        page = parse("README.md", pathlib.Path("."), "word " * words + ". " + short)
        assert bool(list(long_sentences(page))) == wrong
    for words, wrong in ((MEAN, False), (MEAN + 1, True)):
        page = parse("README.md", pathlib.Path("."), ("word " * words)[:-1] + ".")
        assert bool(list(long_sentences(page))) == wrong
    assert anchors("# A `llmc plan A`, B\n```\n# no\n```\n") == {"a-llmc-plan-a-b"}
    forbidden = list(forbidden_words(root))
    assert len(forbidden) > 20, forbidden
    page = parse("README.md", root, "It goes\non, beside `again`.\n\n| a | twin |\n\n    words\n")
    assert [found for found, _ in private_words(page)] == [1, 1, 4], list(private_words(page))
    page = parse("README.md", root,
                 f"[a]({GLOSSARY}) [b]({GLOSSARY}#glossary) [c](http://d) [e](none.md)\n\n[f]({GLOSSARY}#none)")
    assert list(dead_mentions(Text("a.h", root, "// docs/README.md\n// (docs"
                                   "/none.md)"))) == [(2, "no such page: docs"
                                                       "/none.md")]
    code = '/// What it is\nint a;  // What\n# What\n"""What is\n// Whatever\n'
    assert [number for number, _ in first_words(Text("a.h", root, code))] == [1, 3, 4]
    assert [what for _, what in dead_links(page)] == ["no such file: none.md", f"no such heading: {GLOSSARY}#none"]


def counts(root):
    for page in pages(root):
        found = [words for _, text in page.prose for words, _ in sentences(text)]
        if found:
            print(f"{max(found):4} {sum(found) / len(found):5.1f} {len(found):4}  {page.name}")


def main():
    root, wrong = pathlib.Path(sys.argv[1]), []
    check_itself(root)
    if "--counts" in sys.argv:
        return counts(root)
    for texts, rules in SOURCES:
        for text in texts(root):
            wrong += [f"{text.name}:{number}: {what}" for rule in rules for number, what in rule(text)]
    if wrong:
        sys.exit("\n".join(wrong))


main()

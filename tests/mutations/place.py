"""Finds the place of a fault: tokens inside a declaration that is found by name. White space and comments between
tokens do not count, nor does the file, so that code may be moved and reformatted."""

import functools
import os
import re

from declarations import declarations

FOLDERS = ("compiler", "runtime", "templates")
GAP = r"(?:\s|//[^\n]*\n|/\*.*?\*/)"


class OutOfDate(Exception):
    """An entry of a list of faults that does not match the sources any more."""


@functools.lru_cache(maxsize=None)
def tokens(old):
    """A pattern that matches `old` with any white space."""
    pattern, before = "", ""
    for token in re.findall(r"\w+|[^\w\s]", old):
        words = re.match(r"\w", token) and re.search(r"\w$", before)
        pattern += (GAP + ("+" if words else "*")
                    if before else r"(?<!\w)" if re.match(r"\w", token) else "") + re.escape(token)
        before = token
    return re.compile(pattern + (r"(?!\w)" if re.search(r"\w$", before) else ""), re.DOTALL)


class Sources:
    """The C++ and CUDA sources below a folder."""

    def __init__(self, root):
        self.root, self.texts, self.known = root, {}, {}
        for folder in FOLDERS:
            for path, _, names in os.walk(os.path.join(root, folder)):
                for name in names:
                    if name.endswith((".cpp", ".h", ".cu", ".cuh")):
                        file = os.path.join(path, name)
                        with open(file) as opened:
                            self.texts[os.path.relpath(file, root)] = opened.read()

    def declared(self, file):
        if file not in self.known:
            self.known[file] = declarations(self.texts[file])
        return self.known[file]

    def places(self, name, old, part=""):
        """Number of declarations with this name in files whose paths contain `part`, and every (file, begin, end) of
        `old` in them."""
        names, found, count = tuple(name.split("::")), set(), 0
        for file, text in self.texts.items():
            if part in file and names[-1] in text:
                for path, begin, end in self.declared(file):
                    if path[-len(names):] == names:
                        count += 1
                        found |= {(file, *match.span()) for match in tokens(old).finditer(text, begin, end)}
        return count, sorted(found)

    def at(self, file, place):
        return f"{file}:{self.texts[file].count(chr(10), 0, place) + 1}"

    def place(self, anchor, old):
        """(file, begin, end). `anchor`: end of a qualified name, with " in PATH" if others have the same tokens."""
        name, _, part = anchor.partition(" in ")
        count, found = self.places(name, old, part)
        if len(found) == 1:
            return found[0]
        if found:
            raise OutOfDate(
                f"{anchor} has {old!r} {len(found)} times: {', '.join(self.at(f, b) for f, b, _ in found)}; name more of it, "
                "or add ' in PATH' to its name")
        others = [
            self.at(file, match.start()) for file, text in self.texts.items() for match in tokens(old).finditer(text)
        ]
        raise OutOfDate((f"{anchor} has no {old!r}" if count else f"nothing is called {anchor}") +
                        (f"; it stands in {', '.join(others)}" if others else "; it stands nowhere"))

    def with_fault(self, anchor, old, new):
        """The file relative to the root, its text, and the text with `old` replaced by `new`."""
        file, begin, end = self.place(anchor, old)
        text = self.texts[file]
        return file, text, text[:begin] + new + text[end:]


def with_fault(path, old, new):
    """The text of one file that contains `old` once, and the text with `new`."""
    with open(path) as file:
        text = file.read()
    found = list(tokens(old).finditer(text))
    if len(found) != 1:
        raise OutOfDate(f"{path} has {old!r} {len(found)} times, not once")
    return text, text[:found[0].start()] + new + text[found[0].end():]


def put(path, text):
    with open(path, "w") as file:
        file.write(text)

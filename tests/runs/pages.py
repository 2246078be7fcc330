"""Commands of README.md and docs/: the lines that a page tells to type, and a folder to type them in."""

import os
import re
import shutil
import subprocess

import harness
from harness import LLMC, SOURCE

PROGRAM = re.compile(r"(?:\./\w+\.sh|llmc|cmake|build/\S+|bundle/build/\S+|nsys)(?: |$)")

# Overrides that shorten evaluation and sampling from half a minute to a moment.
FEW = "evaluation.sequences=8 sampling.tokens=3"


def read(*path):
    with open(os.path.join(*path)) as file:
        return file.read()


def blocks(page):
    """(section, text since the previous block, language, lines) of each fenced block."""
    parts = re.split(r"^```(\w*)\n(.*?)^```\n", read(SOURCE, page), flags=re.MULTILINE | re.DOTALL)
    section = ""
    for before, language, body in zip(parts[::3], parts[1::3], parts[2::3]):
        section = (re.findall(r"^## .*$", before, re.MULTILINE) or [section])[-1]
        yield section, before, language, body.split("\n")[:-1]


def _complete(words):
    """Whether code in running text is a complete command: not just a command's name, and without placeholders."""
    return (words.startswith("llmc ") and re.search(r"/|\.|E\d{4}", words) is not None
            and not re.search(r"\b[A-Z]{2,}\b|\bA B\b|[<\[]|key=", words))


def commands(page):
    """(command, lines of output that the page shows) in the page's order: indented, after "$ " in a fenced block, or
    in backticks."""
    found, fence, lines = [], False, read(SOURCE, page).split("\n")
    for at, line in enumerate(lines):
        if line.startswith("```"):
            fence = not fence
        elif fence and line.startswith("$ "):
            end = next(i for i in range(at + 1, len(lines)) if lines[i].startswith(("```", "$ ")))
            found.append((line[2:], lines[at + 1:end]))
        elif not fence and line.startswith("    ") and PROGRAM.match(line.strip()):
            found.append((re.sub(r"\s{2,}#.*$", "", line.strip()), []))
        elif not fence:
            found += [(words, []) for words in re.findall(r"`([^`]+)`", line) if _complete(words)]
    return found


def checked(command):
    """The `llmc check` of the values that a run would have: of a sweep the first of each list. None for other
    commands."""
    match = re.fullmatch(r"llmc (?:run|compile|sweep) (\S+\.yaml)(.*?)(?: (?:-|&&).*)?", command)
    if match is None:
        return None
    overrides = [re.sub(r",.*", "", word) for word in match[2].split()]
    return " ".join(["llmc check", match[1], *overrides])


class Tree:
    """A checkout with a built llmc, as far as commands need it; `dataset` becomes its data/quickstart."""

    def __init__(self, folder, dataset=None):
        self.folder = folder
        os.makedirs(os.path.join(folder, "build"))
        os.symlink(LLMC, os.path.join(folder, "build", "llmc"))
        # Runs are written next to a spec; existing ones are not copied.
        shutil.copytree(os.path.join(SOURCE, "specs"), os.path.join(folder, "specs"),
                        ignore=shutil.ignore_patterns("runs"))
        for name in ("cmake", "compiler", "runtime", "docs", "setup.sh", "quickstart.sh"):
            os.symlink(os.path.join(SOURCE, name), os.path.join(folder, name))
        os.makedirs(os.path.join(folder, "data"))
        if dataset:
            shutil.copytree(dataset, os.path.join(folder, "data", "quickstart"))

    def shell(self, command, **changes):
        """Runs a line as typed at the prompt, with llmc on the PATH; returns its exit code, and both outputs as a
        terminal mixes them."""
        env = harness.environment(**changes)
        env["PATH"] = os.path.join(self.folder, "build") + ":" + env["PATH"]
        done = subprocess.run(["bash", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              universal_newlines=True, errors="replace", cwd=self.folder, env=env,
                              timeout=harness.HANGS)
        return done.returncode, done.stdout


def stands_in(test, lines, text, what):
    """Checks that the lines occur in this order, ignoring indentation; "..." stands for any others."""
    rest = [line.strip() for line in text.split("\n")]
    for line in lines:
        if line.strip() not in ("...", ""):
            pattern = ".*".join(re.escape(part) for part in line.strip().split("..."))
            at = next((i for i, other in enumerate(rest) if re.fullmatch(pattern, other)), None)
            test.assertIsNotNone(at, f"{what}: not there, or not in this order: {line.strip()}\n{text}")
            rest = rest[at + 1:]

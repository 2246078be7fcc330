"""Names of all tests, from their sources and the files of CMake: whether a test exists is known without a build."""

import fnmatch
import functools
import os
import re

# CMake's functions that add a test, and the beginnings of the names that they make.
ADDED_BY = {"add_test(NAME": "", "run_test(": "run_", "reference_test(": "reference_", "sim_test(": "sim_"}


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def pattern(word):
    """The word of a macro or of CMake as a pattern: what a parameter stands for is any text."""
    return re.sub(r"\$\{\w+\}", "*", word)


def tests_of(text):
    """Patterns of Suite.Name for GoogleTest's macros in a source, with a / at the end if values follow. In a macro of the
    source, parts of names are parameters."""
    found = set()
    lines = re.sub(r"\\\n", " ", text).split("\n")
    for line in lines:
        macro = re.match(r"\s*#\s*define\s+\w+\(([^)]*)\)", line)
        parameters = set(re.findall(r"\w+", macro.group(1))) if macro else set()
        for kind, suite, name in re.findall(r"\b(TYPED_TEST|TEST(?:_[FP])?)\(\s*([\w# ]+?),\s*([\w# ]+?)\s*\)", line):
            parts = (re.split(r"\s*##\s*", word) for word in (suite, name))
            full = ".".join("".join("*" if part in parameters else part for part in word) for word in parts)
            found.add(full + "/" * (kind == "TEST_P"))
    return found


class Known:
    """Tests of the checkout `source`."""

    def __init__(self, source):
        self.files, self.cmake = {}, {}
        for folder, _, names in os.walk(os.path.join(source, "tests")):
            for name in names:
                if name.endswith(".cpp"):
                    self.files.setdefault(name, []).append(os.path.join(folder, name))
                elif name == "CMakeLists.txt" or name.endswith(".cmake"):
                    self.cmake[folder] = self.cmake.get(folder, "") + re.sub(r"#.*", "", read(os.path.join(
                        folder, name)))

    @functools.cache
    def of_ctest(self):
        """Patterns of the names that CMake gives to tests."""
        found = set()
        for text in self.cmake.values():
            for call, prefix in ADDED_BY.items():
                for word in re.findall(re.escape(call) + r"\s*([\w${}]+)", text):
                    if word not in ("${name}", "run_${name}", "reference_${name}", "sim_${name}"):  # in these functions
                        found.add(prefix + pattern(word))
        return found

    @functools.cache
    def of_program(self, program):
        """Patterns of Suite.Name of a GoogleTest program."""
        found = set()
        for folder, text in self.cmake.items():
            for words in re.findall(rf"add_executable\({program}\s([^)]*)\)", text):
                for name in re.findall(r"[\w.]+\.cpp", words):
                    paths = self.files.get(name, [])
                    here = [path for path in paths if path.startswith(folder + os.sep)]
                    found.update(*(tests_of(read(path)) for path in here or paths))
        return found

    def has(self, test):
        """Whether each pattern of 'PROGRAM FILTER' is of a test of the program, or ctest has a test of this name."""
        program, _, filters = test.partition(" ")
        if not filters:
            return any(fnmatch.fnmatchcase(program, name) for name in self.of_ctest())
        return all(self.has_one(program, one) for one in filters.split(":"))

    def has_one(self, program, wanted):
        wanted = re.sub(r"^\w+/(?=[^\d*][^.]*\.)", "", wanted)  # By/Suite of values
        wanted = re.sub(r"/[\w*]*(?=\.)", "", wanted)  # Suite/0 of types
        suite, dot, rest = wanted.partition(".")
        name = re.match(r"[^/*]*\*?", rest).group()  # of Name/value, or Name*value
        for test in self.of_program(program):
            pattern = suite + dot + name if test.endswith("/") else wanted
            test = test.rstrip("/")
            if fnmatch.fnmatchcase(test, pattern) or fnmatch.fnmatchcase(pattern, test):
                return True
        return False

"""No string of a spec reaches emitted source or a command line: typed values are printed, processes start by argv."""

import json
import os
import re
import stat

import harness
from harness import LLMC, RunTest

HOSTILE = [
    '"; system("touch pwned"); "',
    "$(touch pwned)",
    "`touch pwned`",
    "; touch pwned #",
    "| touch pwned",
    "'\"\\",
    "*/ #error pwned /*",
    ')" R"x( pwned',
    "\\\n#error pwned",
    "line one\nline two",
    "??/\n#error pwned",
    "%s%n${HOME}@ARCH@$ENV{HOME}",
    "\u202e\u00e9\u4e2d\U0001f600 pwned",
    "-o pwned",
    "--help",
]
MARKS = ("pwned", "touch", "line one", "HOME", "\u4e2d", "u4e2d")
# Every key that takes any text. The others take a name from a list, or a name of letters, digits and hyphens.
FREE = [
    "data.tokenizer", "data.train.path", "data.train.NAME", "data.validation.path", "data.validation.NAME",
    "sampling.prompts", "checkpoint.mirror", "init.from", "evaluation.tasks.NAME"
]
CLOSED = [
    "name", "target.arch", "target.kind", "precision.compute", "schedule.kind", "optimizer.kind", "memory.recompute",
    "model.rope_scaling.type", "init.linear", "checkpoint.best", "target.device", "model.layer_types", "init.zero"
]


def filled(text):
    """The text in every free key. A path holds no control characters: the spec reader refuses them."""
    path = re.sub(r"[\x00-\x1f]", " ", text)
    return {key: text if key == "sampling.prompts" else path for key in FREE}


def spec_with(values, mixture=False):
    quoted = {key: json.dumps(text, ensure_ascii=False)
              for key, text in values.items()}  # a JSON string is a YAML string
    return harness.SMALL.replace('["1 2 3", "40"]', f'[{quoted["sampling.prompts"]}]') \
        .replace("[{path: train-*.bin}]", f'{{web: {quoted["data.train.NAME"]}}}' if mixture else
                 f'[{{path: {quoted["data.train.path"]}}}]') \
        .replace("[{path: val-*.bin}]", f'{{path: {quoted["data.validation.path"]}, web: {quoted["data.validation.NAME"]}}}') \
        .replace("sequences: 4}", f'sequences: 4, tasks: {{web: {quoted["evaluation.tasks.NAME"]}}}}}') \
        .replace("  seed: 5", f'  tokenizer: {quoted["data.tokenizer"]}\n  seed: 5') \
        .replace("keep_last: 100}", f'keep_last: 100, mirror: {quoted["checkpoint.mirror"]}}}') + f'init: {{from: {quoted["init.from"]}}}\n'


class Injection(RunTest):

    def emit(self, name, text, *overrides):
        folder = self.path(name)
        spec = self.path(name + ".yaml")
        with open(spec, "w", encoding="utf-8") as file:
            file.write(text)
        self.succeed(LLMC, "emit", spec, "-o", folder, *overrides, cwd=self.folder)
        return {path: content.decode() for path, content in harness.tree(folder).items()}

    def test_no_string_in_sources(self):
        plains = [self.emit(f"plain-{mixture}", spec_with(filled("plain"), mixture)) for mixture in (False, True)]
        plain = plains[0]
        data = {"plan.json", "plan.txt", "spec.yaml", "config.json"}  # included in texts.S as bytes
        compiled = set(plain) - data
        self.assertEqual(len([path for path in compiled if path.startswith("kernels/")]) > 10, True)
        for number, text in enumerate(HOSTILE):
            hostile = self.emit(f"hostile-{number}", spec_with(filled(text), number % 2 == 1))
            self.assertEqual(set(hostile), set(plain))
            for path in sorted(compiled):
                self.assertEqual(hostile[path], plains[number % 2][path], f"{path} with {text!r}")
                for mark in MARKS:
                    self.assertFalse(mark in re.sub(r"\s+", " ", hostile[path]), f"{mark!r} in {path} with {text!r}")
            resolved = self.path(f"hostile-{number}", "spec.yaml")
            rows = {
                row["key"]: row["value"]
                for row in json.loads(self.succeed(LLMC, "config", resolved, "--json").out)
            }
            self.assertEqual((rows["sampling.prompts"], rows["data.tokenizer"]),
                             ([text], filled(text)["data.tokenizer"]))
        self.assertNotIn("pwned", os.listdir(self.folder))

    def test_every_text_key_is_known_here(self):
        """A new key that takes any text must be added to FREE."""
        rows = json.loads(self.succeed(LLMC, "config", harness.write_small(self.path("known")), "--json").out)
        texts = {row["key"] for row in rows if row["type"] in ("string", "strings", "map")}
        self.assertLessEqual(texts, set(FREE + CLOSED + ["data.train.format", "data.validation.format"]))

    def test_closed_keys_refuse(self):
        spec = harness.write_small(self.path("closed"))
        for key in CLOSED:
            for text in HOSTILE:
                done = harness.call(LLMC, "emit", spec, "-o", self.path("never"), f"{key}={json.dumps(text)}")
                self.assertEqual(done.code, 1, f"{key}={text!r}: {done.out}{done.err}")
                self.assertFalse(os.path.exists(self.path("never")))
        for text in HOSTILE:  # as a key's name in a file
            with open(self.path("named.yaml"), "w", encoding="utf-8") as file:
                file.write(harness.SMALL.replace("[{path: val-*.bin}]", f"{{{json.dumps(text)}: val-*.bin}}"))
            done = harness.call(LLMC, "emit", self.path("named.yaml"), "-o", self.path("never"))
            self.assertEqual(done.code, 1, f"{text!r}: {done.out}{done.err}")

    def test_no_string_in_command_lines(self):
        """A g++ that records its arguments and runs the real one."""
        log, tools = self.path("log"), self.path("tools")
        os.makedirs(tools)
        fake = os.path.join(tools, "g++")
        with open(fake, "w") as file:
            file.write(f'#!/bin/sh\nprintf "%s\\0" "$@" >> "{log}"\nexec /usr/bin/g++ "$@"\n')
        os.chmod(fake, os.stat(fake).st_mode | stat.S_IXUSR)
        spec = self.path("argv.yaml")
        with open(spec, "w", encoding="utf-8") as file:
            file.write(spec_with({key: filled(HOSTILE[i])[key] for i, key in enumerate(FREE)}))
        env = harness.environment()
        env["PATH"] = tools + ":" + env["PATH"]
        self.succeed(LLMC, "compile", spec, "-o", self.path("argv"), cwd=self.folder, env=env)
        words = harness.read(log).decode().split("\0")
        self.assertGreater(words.count("-c"), 10)
        for word in words:
            for mark in MARKS:
                self.assertNotIn(mark, word)
        self.assertFalse(os.path.exists(self.path("pwned")))

    def test_folders_with_any_name(self):
        """Folders are chosen by the caller, and reach compilers as one argument each."""
        folder = self.path("it's, touch; touch pwned $(touch pwned) \"\\ #")
        spec = harness.write_small(folder)
        out = os.path.join(folder, "out -o x")
        self.succeed(LLMC, "compile", spec, "-o", out, cwd=self.folder)
        self.succeed(os.path.join(out, "trainer"), "--run", os.path.join(folder, "run"), "--steps", 1, cwd=self.folder)
        self.assertNotIn("pwned", os.listdir(self.folder))
        self.assertNotIn("touch", "".join(os.listdir(out)))
        for path, content in harness.tree(out).items():
            if path.endswith((".cpp", ".h", ".S", ".txt", ".json", ".yaml")):
                self.assertNotIn(b"pwned", content, path)


if __name__ == "__main__":
    harness.main()

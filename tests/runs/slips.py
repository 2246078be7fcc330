"""Slips on a command line: what was meant is proposed, and no proposal is refused in its turn."""

import json
import os

import harness
from harness import LLMC, SOURCE, RunTest

TINY = os.path.join(SOURCE, "specs", "tiny.yaml")


class Slips(RunTest):

    def refused(self, code, *words):
        done = harness.call(LLMC, *words, cwd=self.folder)
        self.assertEqual((done.code, done.out), (code, ""), f"{words}: {done.err}")
        return done.err

    def write(self, names, text):
        path = self.path(*names)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def test_options(self):
        for words, said in (
            (["init", "--form", "x"], "option --form. Did you mean --from?"),
            (["init", "new.yaml"], "llmc init -o new.yaml"),
            (["explain", "301"], "Did you mean E0301?"),
            (["devices", "H100"], "Did you mean h100-nvl, h100-pcie or h100-sxm?"),
            (["devices", "a10", "l4", "h200"], "not expected: l4 h200\n"),
            (["check", TINY, "--optimizer.lr=3"], ": optimizer.lr=3\n"),
            (["plan", TINY, "--lr", "3"], ("option --lr. ", "no dashes", ": optimizer.lr=VALUE\n")),
            (["plan", TINY, "--hidden-size"], ": model.hidden_size=VALUE\n"),
            (["check", TINY, "--learning-rate", "3"], "option --learning-rate; llmc's key is optimizer.lr"),
            (["runs", ".", "--lr", "3"], "option --lr\n"),
            (["run", TINY, "--", "--stpes", "3"], "option --stpes. Did you mean --steps?"),
            (["run", TINY, "--", "--stpes", "3"], " -- --help\n"),
            (["run", TINY, "--", "--optimizer.lr", "3"], ": optimizer.lr=VALUE"),
            (["run", TINY, "--", "evaluate", "--checkpoint", "x", "--lr",
              "3"], ("option --lr. ", " -- evaluate --help")),
            (["run", TINY, "--", "sample"], ("--checkpoint", "required", " -- sample --help")),
        ):
            self.assert_facts(self.refused(2, *words), *([said] if isinstance(said, str) else said))

    def test_commands(self):
        for words, said in (
            (["checkpoint", "list", "runs"], ("'checkpoint list'", "ls, show,")),
            (["data", "inspect"], ("'data inspect'", "build, info, look or verify")),
            (["data"], ("error: data ", "build, info, look or verify")),
            (["che"], "'che'. Did you mean check or checkpoint? "),
            (["run", TINY, "--", "eval"], "'eval'. Did you mean evaluate?"),
            (["run", TINY, "--", "smaple", "--steps", "3"], "'smaple'. Did you mean sample?"),
            (["run", TINY, "--", "train"], ('"train"', "override", "key.path=value")),
        ):
            self.assert_facts(self.refused(2, *words), *([said] if isinstance(said, str) else said))

    def test_devices_of_one_family(self):
        """No H200 is proposed for an H100."""
        meant = "Did you mean h100-nvl, h100-pcie or h100-sxm?"
        self.assertIn(meant, self.refused(2, "devices", "h100"))
        self.assertIn(meant, self.refused(2, "plan", TINY, "--device", "h100"))
        self.assertIn(meant, self.refused(2, "sizes", "--device", "h100"))
        self.assertIn("Did you mean h200?", self.refused(2, "devices", "H200"))
        self.assertIn("name: h200\n", self.succeed(LLMC, "devices", "NVIDIA H200").out)  # the driver's name
        budget = self.refused(1, "check", TINY, "memory.budget=h100")
        self.assertNotIn("h200", budget.split("\n")[-4])
        for name in budget.split("\n")[-4].removeprefix("  write budget: ").split(" or "):
            self.succeed(LLMC, "check", TINY, f"memory.budget={name}")
        self.assertNotRegex(self.succeed(LLMC, "devices").out, "e[+]0")

    def test_numbers_that_are_none(self):
        for words in (["data", "info", "x.bin", "--sequence-length",
                       "0"], ["compile", TINY, "-j", "0"], ["verify", TINY, "--jobs", "0"], ["calibrate", "-j", "-1"]):
            self.assertIn("not in range 1 to ", self.refused(2, *words), words)
        text = self.refused(2, "data", "build", "--from", ".", "--vocab-size", "abc", "-o", "x")
        self.assertEqual(text.count("--vocab-size"), 1, text)

    def test_words_for_options(self):
        self.assertEqual(self.succeed(LLMC, "help").out, self.succeed(LLMC, "--help").out)
        self.assertEqual(self.succeed(LLMC, "help", "plan").out, self.succeed(LLMC, "plan", "--help").out)
        self.assert_facts(self.refused(2, "help", "plam"), "no command 'plam'", "Did you mean plan?")
        self.assertEqual(self.succeed(LLMC, "version").out, self.succeed(LLMC, "--version").out)

    def test_values_that_nobody_means(self):
        best = ("data.validation.path=val.bin", "checkpoint.best=validation")
        for words, said in ((("optimizer.lr=10", ), "optimizer.lr 10 is far above"),
                            (("optimizer.lr=0.01", "optimizer.weight_decay=1000"),
                             "decay takes all of a weight or more"), (("evaluation.every=0", *best),
                                                                      "checkpoint.best keeps no checkpoint")):
            self.assertRegex(self.succeed(LLMC, "check", TINY, *words).err, f"(?m)^note: .*{said}")

    def test_files_of_another_kind(self):
        self.write(("model", "config.json"), json.dumps({"model_type": "llama"}))
        self.assertIn("`llmc init --from model -o spec.yaml`", self.refused(1, "check", "model"))
        self.assertIn("SPEC key.path=value", self.refused(1, "check", "optimizer.lr=3", TINY))
        self.assert_facts(self.refused(1, "init", "--from", TINY), "tiny.yaml is not a model", "config.json")
        self.assert_facts(self.refused(2, "calibrate", TINY), "`trainer calibrate ", "JSON", "byte 1\n")
        self.write(("figures.json", ), "{}")
        self.assertIn(": key 'format' not found\n", self.refused(2, "calibrate", "figures.json"))
        text = self.refused(2, "emit", TINY, "-o", "emitted", "--dump-ir", TINY)
        self.assert_facts(text, TINY, "not a folder")
        self.assert_facts(self.refused(2, "emit", TINY, "-o", "emitted", "--dump-ir", "./emitted"), "own folder")

    def test_what_comes_after_a_spec_without_a_tokenizer(self):
        config = {
            "model_type": "llama", "vocab_size": 320, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers":
            1, "num_attention_heads": 4, "hidden_act": "silu"
        }
        self.write(("bare", "config.json"), json.dumps(config))
        done = self.succeed(LLMC, "init", "--from", self.path("bare"), "-o", self.path("bare.yaml"))
        self.assertIn("docs/how-to/data-from-hugging-face.md", done.err)
        self.assertIn(f"\n  llmc run {self.path('bare.yaml')}\n", done.err)


if __name__ == "__main__":
    harness.main()

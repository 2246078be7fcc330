"""Commands of llmc that do not train: help, doctor, explain, schema, config, check."""

import json
import os
import pty
import re
import shutil
import subprocess
import time

import harness
import pages
from harness import LLMC, SOURCE, RunTest

COMMANDS = [
    "check", "config", "schema", "explain", "init", "plan", "diff", "emit", "compile", "run", "verify", "data build",
    "data info", "data look", "data verify", "checkpoint ls", "checkpoint show", "checkpoint verify", "checkpoint diff",
    "checkpoint prune", "checkpoint export", "checkpoint average", "runs", "report", "devices", "calibrate", "sizes",
    "doctor", "sweep", "scale"
]

PURE = ("check", "config", "schema", "explain", "init", "plan", "diff", "emit", "devices", "sizes", "doctor", "scale")


class Cli(RunTest):

    def on_terminal(self, command, env):
        """Standard error of a command that runs on a terminal."""
        master, slave = pty.openpty()
        process = self.start(*command, stdout=subprocess.DEVNULL, stderr=slave, env=env)
        os.close(slave)
        output = harness.read_terminal(master)
        process.wait(timeout=harness.HANGS)
        return output.decode()

    def test_help_has_an_example(self):
        overview = self.succeed(LLMC, "--help").out
        self.assertIn("Examples:", overview)
        for command in COMMANDS:
            self.assertIn(command.split()[0], overview)
            text = self.succeed(LLMC, *command.split(), "--help").out
            self.assertRegex(text, rf"Example: llmc {command} ?", command)
        self.assertRegex(self.succeed(LLMC, "--version").out, r"^\d+\.\d+\.\d+\n$")

    def test_examples_work(self):
        """Those that need no compiler and no run; a run's values are checked."""
        tree, tried = pages.Tree(self.path("tree")), 0
        shutil.copyfile(os.path.join(SOURCE, "specs", "tiny.yaml"), os.path.join(tree.folder, "mine.yaml"))
        for command in ["", *COMMANDS]:
            text = self.succeed(LLMC, *command.split(), "--help").out
            for example in re.findall(r"^(?:Example:)? *(llmc .*)", text, re.MULTILINE):
                example = pages.checked(example) or example.split(",")[0]
                if example.split()[1] in PURE and "--kernels" not in example and "--from" not in example:
                    code, output = tree.shell(example)
                    self.assertEqual(code, 1 if " diff " in example else 0, f"{example}\n{output}")
                    tried += 1
        self.assertGreater(tried, 20)

    def test_every_command_is_tested(self):
        listed = re.findall(r"^  (\w+)  ", self.succeed(LLMC, "--help").out.split("Subcommands:")[1], re.MULTILINE)
        self.assertEqual(sorted(set(listed)), sorted({command.split()[0] for command in COMMANDS}))

    def test_usage_errors(self):
        for line in (
                "",
                "nonsense",
                "check",
                "emit specs/tiny.yaml --style=pretty",
                "explain E9999",
                "plan specs/tiny.yaml --nonsense",
                "plan specs/tiny.yaml -j 2",
                "plan specs/tiny.yaml --kernels --launches",
                "plan specs/tiny.yaml --kernels -o x",
                "checkpoint",
                "checkpoint rm",
                "checkpoint prune specs",
                "checkpoint prune specs --keep-last 0",
                "checkpoint export specs",
                "checkpoint export specs -o x --dtype fp8",
                "checkpoint export specs -o x --shard-size 0",
                "checkpoint average specs -o x",
                "checkpoint average specs docs",
        ):
            words = line.split()
            done = harness.call(LLMC, *words, cwd=SOURCE)
            self.assertEqual(done.code, 2, f"{words}: {done.out}{done.err}")
            self.assertTrue(done.err.strip(), words)

    def test_unknown_command(self):
        done = harness.call(LLMC, "complie", "specs/quickstart.yaml")
        self.assertEqual((done.code, done.out), (2, ""))
        self.assertIn("'complie'. Did you mean compile? ", done.err)

    def test_options_of_the_trainer(self):
        """Trainer options without the `--` before them get a hint."""
        done = harness.call(LLMC, "run", "specs/tiny.yaml", "--steps", "10", cwd=SOURCE)
        self.assertEqual((done.code, done.out), (2, ""))
        self.assertIn(" -- --steps 100", done.err)

    def test_doctor(self):
        findings = json.loads(self.succeed(LLMC, "doctor", "--json").out)
        by_name = {finding["what"]: finding for finding in findings}
        self.assertTrue(by_name["CPU runtime"]["good"])
        self.assertTrue(by_name["C++ compiler"]["good"])
        self.assertTrue(all(finding["good"] or finding["advice"] for finding in findings))
        self.assertIn("C++ compiler", self.succeed(LLMC, "doctor").out)
        # Without a compiler on the PATH: exit 3, and packages to install.
        done = harness.call(LLMC, "doctor", env=harness.environment(PATH="/nonexistent"))
        self.assertEqual(done.code, 3)
        self.assertIn("apt-get install g++", done.out)

    def test_explain_every_code(self):
        """Every code that explain lists has a text, and the codes of a broken spec are among them."""
        known = re.findall(r"^E\d{4}", self.succeed(LLMC, "explain").out, re.MULTILINE)
        self.assertGreater(len(known), 20)
        for code in known:
            self.assertIn(code, self.succeed(LLMC, "explain", code).out)
        done = harness.call(LLMC, "check", "specs/tiny.yaml", "model.hidden_size=nine", "nonsense=1", "--json",
                            cwd=SOURCE)
        self.assertEqual(done.code, 1)
        self.assertLessEqual({entry["code"] for entry in json.loads(done.out)}, set(known))

    def test_schema(self):
        schema = json.loads(self.succeed(LLMC, "schema").out)
        self.assertIn("draft-07", schema["$schema"])
        self.assertIn("hidden_size", json.dumps(schema))
        page = self.succeed(LLMC, "schema", "--markdown").out
        with open(os.path.join(SOURCE, "docs", "reference", "keys.md")) as file:
            self.assertEqual(file.read(), page,
                             "docs/reference/keys.md is not up to date: cmake --build build --target regenerate")

    def test_config_round_trip(self):
        """The resolved spec is a spec with the same values and the same trainer."""
        for name in ("tiny", "quickstart", "llama-1b"):
            spec = os.path.join(SOURCE, "specs", name + ".yaml")
            resolved = self.path(name + ".yaml")
            with open(resolved, "w") as file:
                file.write(self.succeed(LLMC, "config", spec, "optimizer.lr=5e-4").out)

            def values(path, *overrides):
                rows = json.loads(self.succeed(LLMC, "config", path, "--json", *overrides).out)
                return {row["key"]: row["value"] for row in rows}

            self.assertEqual(values(resolved), values(spec, "optimizer.lr=5e-4"))
            self.assertEqual(harness.call(LLMC, "diff", resolved, spec, "optimizer.lr=5e-4").code, 0)

    def test_config_says_origins(self):
        text = self.succeed(LLMC, "config", "specs/tiny.yaml", "optimizer.lr=5e-4", cwd=SOURCE).out
        self.assertRegex(text, r"lr: 5e-04.*override|lr: 0\.0005.*override")
        self.assertRegex(text, r"hidden_size: 64.*specs/tiny\.yaml:\d+")
        self.assertRegex(text, r"rms_norm_eps:.*default")

    def test_shapes_that_transformers_does_not_load(self):
        """They train, and check warns that an export does not load."""
        spec = os.path.join(SOURCE, "specs", "tiny.yaml")
        said = self.succeed(LLMC, "check", spec, "model.hidden_size=66", "model.head_dim=16").err
        self.assert_facts(said, "warning: ", "hidden_size 66 ", "num_attention_heads 4", "transformers 5 ")
        self.assertNotIn("transformers", self.succeed(LLMC, "check", spec).err)

    def test_tokens_for_each_parameter(self):
        """check names them next to the compute-optimal number, and a plan draws the schedule."""
        plan = json.loads(
            self.succeed(LLMC, "plan", "specs/tiny.yaml", "schedule.tokens=20x", "--json", cwd=SOURCE).out)
        steps = -(-20 * plan["parameters"] // 512)
        self.assertEqual(plan["length"]["steps"], steps)
        self.assertAlmostEqual(plan["length"]["tokens_per_parameter"], steps * 512 / plan["parameters"])
        done = self.succeed(LLMC, "check", "specs/tiny.yaml", "schedule.tokens=20x", cwd=SOURCE)
        self.assert_facts(done.out, f"{steps} steps", " 20 ", "about 20", "2022")
        self.assertIn("schedule.steps 100", done.err)
        self.assert_facts(
            self.succeed(LLMC, "plan", "specs/tiny.yaml", cwd=SOURCE).out, "100 steps", ".~*###", "3.00e-03")
        refused = harness.call(LLMC, "check", "specs/tiny.yaml", "schedule.tokens=20x", "schedule.steps=3", cwd=SOURCE)
        self.assertEqual((refused.code, "E0349" in refused.err), (1, True), refused.err)

    def test_models_that_transformers_does_not_have(self):
        """They train, and check warns once that checkpoint export refuses them."""
        said = self.succeed(LLMC, "check", "specs/tiny.yaml", "model.qk_norm=true", "model.mlp_bias=true",
                            cwd=SOURCE).err
        self.assert_facts(said, "warning: ", "no model type of transformers", "llama", "model.qk_norm: true")
        self.assertEqual(said.count("transformers"), 1)

    def test_wrong_words_that_are_often_meant(self):
        """A mistyped command, a model's configuration instead of a spec, a model's hub name instead of its folder."""
        self.assertIn("'pan'. Did you mean plan? ", harness.call(LLMC, "pan", "x.yaml").err)
        self.assertIn(" check, config, ", harness.call(LLMC).err)
        self.assertIn("llmc run specs/tiny.yaml", harness.call(LLMC, "specs/tiny.yaml").err)
        for name, facts in (("specs/tinny.yaml", ("specs/tinny.yaml", "no such file", "specs/tiny.yaml?")),
                            ("none/x.yaml", ("`llmc init -o none/x.yaml`", ))):
            self.assert_facts(harness.call(LLMC, "check", name, cwd=SOURCE).err, *facts)
        with open(self.path("config.json"), "w") as file:
            json.dump({"model_type": "llama", "vocab_size": 320, "hidden_size": 64}, file)
        done = harness.call(LLMC, "check", "config.json", cwd=self.folder)
        self.assertEqual(done.code, 1)
        self.assertEqual(done.err.count("error"), 2)  # and the line that counts them
        self.assertIn("`llmc init --from config.json -o spec.yaml`", done.err)
        for name in ("meta-llama/Llama-3.2-1B", "https://huggingface.co/meta-llama/Llama-3.2-1B/"):
            done = harness.call(LLMC, "init", "--from", name, cwd=self.folder)
            self.assertEqual(done.code, 2)
            self.assertIn("\n  hf download meta-llama/Llama-3.2-1B --local-dir Llama-3.2-1B\n", done.err)
        self.assertNotIn("download", harness.call(LLMC, "init", "--from", "../nothing", cwd=self.folder).err)

    def test_colour(self):
        """Colour on a terminal, unless NO_COLOR is set; never in a pipe."""
        command = [LLMC, "check", os.path.join(SOURCE, "specs", "tiny.yaml"), "model.hidden_size=0"]
        plain = harness.environment()
        plain.pop("NO_COLOR", None)
        self.assertIn("\033[", self.on_terminal(command, plain))
        self.assertNotIn("\033[", self.on_terminal(command, dict(plain, NO_COLOR="1")))
        self.assertNotIn("\033[", harness.call(*command, env=plain).err)

    def test_progress_on_a_terminal_is_one_line(self):
        with open(self.path("many.jsonl"), "w") as file:
            file.writelines(json.dumps({"text": f"document {number}"}) + "\n" for number in range(3000))
        begin = time.monotonic()
        shown = self.on_terminal([
            LLMC, "data", "build", "--from",
            self.path("many.jsonl"), "--vocab-size", "320", "-o",
            self.path("of-many")
        ], os.environ)
        self.assertLessEqual(shown.count("\r\033[K"), 10 * (time.monotonic() - begin) + 1)
        self.assertTrue(os.path.exists(self.path("of-many", "dataset.json")))
        with open(self.path("packed.jsonl"), "wb") as file:
            file.write(b"\x1f\x8b\x08 as of gzip")
        shown = self.on_terminal([
            LLMC, "data", "build", "--from",
            self.path("packed.jsonl"), "--vocab-size", "320", "-o",
            self.path("of-packed")
        ], os.environ)
        self.assertRegex(shown, r"\r\033\[K(\033\[[\d;]*m)?error:", "the error begins a line")

    def test_dump_ir(self):
        folder = self.path("ir")
        self.succeed(LLMC, "emit", os.path.join(SOURCE, "specs", "tiny.yaml"), "-o", self.path("dumped"), "--dump-ir",
                     folder)
        names = sorted(name for name in os.listdir(folder) if name.endswith(".txt"))
        self.assertEqual(names[0], "00-build.txt")
        self.assertGreater(len(names), 8)

    def test_check_warns_of_data_that_is_read_twice(self):
        """Under other paths too, with the same exit code, and only if the run evaluates."""
        spec = harness.write_small(self.path("shared"))
        os.symlink(self.path("shared"), self.path("shared-link"))
        held = f"data.validation.path={self.path('shared-link')}/*-1.bin"
        self.assertRegex(
            self.succeed(LLMC, "check", spec, held).err,
            r"^warning: data\.train\.path and data\.validation\.path both name '.*train-1\.bin', .*\n$")
        self.assertEqual(self.succeed(LLMC, "check", spec, held, "evaluation.every=0").err, "")
        twice = ("data.train.path=", "data.train.a={path: train-*.bin, weight: 1}",
                 "data.train.b={path: train-1.bin, weight: 1}")
        self.assertRegex(
            self.succeed(LLMC, "check", spec, *twice, cwd=self.path("shared")).err,
            r"(?m)^warning: data\.train\.a and data\.train\.b both name '.*train-1\.bin', ")
        self.assertRegex(
            self.succeed(LLMC, "check", spec, *twice, "data.train.a.weight=1e-9", cwd=self.path("shared")).err,
            r"(?m)^warning: data\.train\.a\.weight .*no sample")

    def test_check_says_what_is_not_there(self):
        """Warns of each file that a run would open, with the same exit code."""
        spec = harness.write_small(self.path("check"))
        self.assertEqual(self.succeed(LLMC, "check", spec).err, "")
        empty = self.path("nothing", "here")
        os.makedirs(empty)
        done = self.succeed(LLMC, "check", spec, "data.tokenizer=t.model", "data.train.path=no-*.bin", cwd=empty)
        # Paths typed on the command line are relative to the current directory.
        self.assertRegex(
            done.err, rf"^warning: data\.tokenizer: .*'{re.escape(empty)}/t\.model'.*\n"
            rf"warning: data\.train\.path: .*'{re.escape(empty)}/no-\*\.bin'.*\n$")
        self.assertEqual(
            self.succeed(LLMC, "check", spec, "data.tokenizer=t.model", "sampling.every=0", "evaluation.every=0").err,
            "")
        # Nothing is decoded then, but a guard that shows samples needs it.
        self.assertIn(
            "t.model",
            self.succeed(LLMC, "check", spec, "data.tokenizer=t.model", "sampling.every=0", "evaluation.every=0",
                         "guards.log_text=true").err)

    def test_diff_wants_two_specs(self):
        for words in (["specs/tiny.yaml"], ["specs/tiny.yaml", "optimizer.lr=1"]):
            done = harness.call(LLMC, "diff", *words, cwd=SOURCE)
            self.assertEqual((done.code, done.out), (2, ""))
            self.assertRegex(done.err, r"llmc diff (SPEC|specs/tiny.yaml) (SPEC|specs/tiny.yaml) '?(key|optimizer)")


if __name__ == "__main__":
    harness.main()

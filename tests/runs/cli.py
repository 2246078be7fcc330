"""Commands of llmc that do not train: help, doctor, explain, schema, config, init, check."""

import json
import os
import pty
import re
import shutil
import subprocess

import harness
from harness import LLMC, SOURCE, RunTest

COMMANDS = [
    "check", "config", "schema", "explain", "init", "plan", "diff", "emit", "compile", "run", "verify", "data build",
    "data info", "checkpoint ls", "checkpoint show", "checkpoint verify", "checkpoint diff", "checkpoint prune",
    "checkpoint export", "runs", "report", "devices", "calibrate", "sizes", "doctor"
]


def on_terminal(command, env):
    """Standard error of a command that runs on a terminal."""
    master, slave = pty.openpty()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=slave, env=env)
    os.close(slave)
    output = harness.read_terminal(master)
    process.wait(timeout=harness.HANGS)
    return output.decode()


class Cli(RunTest):

    def test_help_has_an_example(self):
        overview = self.succeed(LLMC, "--help").out
        self.assertIn("Examples:", overview)
        for command in COMMANDS:
            self.assertIn(command.split()[0], overview)
            text = self.succeed(LLMC, *command.split(), "--help").out
            self.assertRegex(text, rf"Example: llmc {command} ?", command)
        self.assertRegex(self.succeed(LLMC, "--version").out, r"^\d+\.\d+\.\d+\n$")

    def test_every_command_is_tested(self):
        listed = re.findall(r"^  (\w+)  ", self.succeed(LLMC, "--help").out.split("Subcommands:")[1], re.MULTILINE)
        self.assertEqual(sorted(set(listed)), sorted({command.split()[0] for command in COMMANDS}))

    def test_usage_errors(self):
        for words in ([], ["nonsense"], ["check"], ["emit", "specs/tiny.yaml", "--style=pretty"], ["explain", "E9999"],
                      ["plan", "specs/tiny.yaml", "--nonsense"], ["plan", "specs/tiny.yaml", "-j", "2"],
                      ["plan", "specs/tiny.yaml", "--kernels",
                       "--launches"], ["plan", "specs/tiny.yaml", "--kernels", "-o",
                                       "x"], ["checkpoint"], ["checkpoint", "rm"], ["checkpoint", "prune", "specs"],
                      ["checkpoint", "prune", "specs", "--keep-last",
                       "0"], ["checkpoint", "export",
                              "specs"], ["checkpoint", "export", "specs", "-o", "x", "--dtype",
                                         "fp16"], ["checkpoint", "export", "specs", "-o", "x", "--shard-size", "0"]):
            done = harness.call(LLMC, *words, cwd=SOURCE)
            self.assertEqual(done.code, 2, f"{words}: {done.out}{done.err}")
            self.assertTrue(done.err.strip(), words)

    def test_unknown_command(self):
        done = harness.call(LLMC, "complie", "specs/quickstart.yaml")
        self.assertEqual((done.code, done.out), (2, ""))
        self.assertIn("error: there is no command 'complie'; did you mean compile? the commands are check,", done.err)

    def test_options_of_the_trainer(self):
        """Trainer options without the `--` before them get a hint."""
        done = harness.call(LLMC, "run", "specs/tiny.yaml", "--steps", "10", cwd=SOURCE)
        self.assertEqual((done.code, done.out), (2, ""))
        self.assertIn("llmc run SPEC -- --steps 100", done.err)

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

    def test_init(self):
        spec = self.path("my-run.yaml")
        self.succeed(LLMC, "init", "-o", spec, cwd=self.folder)
        self.assertEqual(self.succeed(LLMC, "init", cwd=self.folder).out.encode(), harness.read(spec))
        self.succeed(LLMC, "check", spec)
        self.assertEqual(harness.call(LLMC, "init", "-o", spec).code, 2)  # an existing file is never replaced

    def follow_init(self, spec, *words):
        """Commands suggested by init make the data that its spec names, from any current directory; the result trains.
        """
        environment = harness.environment()
        environment["PATH"] = os.path.dirname(os.path.realpath(LLMC)) + ":" + environment["PATH"]
        here = self.path("here")
        done = self.succeed(LLMC, "init", "-o", spec, *words, cwd=here)
        build, run = re.fullmatch(
            r"wrote .*\nnext, with your text in FOLDER:\n  (llmc data build .*)\n  (llmc run .*)\n", done.err).groups()
        text = harness.read(os.path.join(here, spec)).decode()
        self.assertIn(f"# {build}\n", text)
        self.assertNotIn(self.folder, text)
        warned = self.succeed(LLMC, "check", spec, cwd=here).err
        self.assertEqual(warned.count("no file matches"), 3, warned)  # tokenizer, training and validation data
        self.succeed("sh", "-c", build, cwd=here, env=environment)
        self.assertNotIn("no file matches", self.succeed(LLMC, "check", spec, cwd=here).err)
        return lambda more: self.succeed("sh", "-c", run + more, cwd=here, env=environment)

    def test_what_init_says_comes_next(self):
        os.makedirs(self.path("here", "FOLDER"))
        os.makedirs(self.path("here", "specs", "deep"))
        for number in range(30):
            with open(self.path("here", "FOLDER", f"{number}.txt"), "w") as file:
                file.write(f"the text of {number}, which says little more than that\n" * 40)
        self.follow_init("specs/My spec.yaml")
        self.assertTrue(os.path.exists(self.path("here", "data", "my-spec", "train-00000.bin")))
        self.follow_init("flat.yaml")(
            " schedule.steps=20 schedule.warmup_steps=2 model.num_hidden_layers=1 -- --steps 1")
        self.assertTrue(os.path.exists(self.path("here", "runs", "flat", "checkpoints", "step-00000001")))
        self.follow_init("../beside.yaml")
        # Data for a model with a tokenizer is made with that tokenizer.
        os.makedirs(self.path("here", "a model"))
        shutil.copy(self.path("here", "data", "flat", "tokenizer.model"), self.path("here", "a model"))
        with open(self.path("here", "a model", "config.json"), "w") as file:
            json.dump(
                {
                    "model_type": "llama", "vocab_size": 320, "hidden_size": 64, "intermediate_size": 160,
                    "num_hidden_layers": 2, "num_attention_heads": 4
                }, file)
        self.follow_init("specs/deep/a.yaml", "--from", "a model")
        self.assertEqual(harness.read(self.path("here", "data", "a-model", "tokenizer.model")),
                         harness.read(self.path("here", "data", "flat", "tokenizer.model")))
        # The parent of a link differs from that of its name, so the path is absolute.
        os.symlink("specs/deep", self.path("here", "linked"))
        self.succeed(LLMC, "init", "-o", "linked/b.yaml", cwd=self.path("here"))
        self.assertIn("path: " + self.path("here", "data", "b", "train-*.bin"),
                      harness.read(self.path("here", "linked", "b.yaml")).decode())
        done = harness.call(LLMC, "init", "-o", "none/a.yaml", cwd=self.path("here"))
        self.assertEqual((done.code, done.err), (2, "error: cannot write none/a.yaml: No such file or directory\n"))

    def test_init_from_a_checkpoints_config(self):
        """config.json of a trainer imports as the same model."""
        small = harness.write_small(self.path("model"))
        trainer = self.compile(small, "trainer", "model.attention_bias=false", "model.head_dim=16")
        self.succeed(trainer, "--run", self.path("run"), "--steps", 1)
        config = self.path("run", "checkpoints", "step-00000001", "config.json")
        spec = self.path("from.yaml")
        self.succeed(LLMC, "init", "--from", config, "-o", spec)

        def model(path, *overrides):
            rows = json.loads(self.succeed(LLMC, "config", path, "--json", *overrides).out)
            return {row["key"]: row["value"] for row in rows if row["key"].startswith("model.")}

        self.assertEqual(model(spec), model(small, "model.attention_bias=false", "model.head_dim=16"))
        experts = json.loads(harness.read(config))
        experts["num_local_experts"] = 8
        with open(self.path("experts.json"), "w") as file:
            json.dump(experts, file)
        done = harness.call(LLMC, "init", "--from", self.path("experts.json"))
        self.assertEqual((done.code, done.out), (1, ""))
        self.assertIn("num_local_experts", done.err)

    def test_shapes_that_transformers_does_not_load(self):
        """They train, and check warns that an export does not load."""
        spec = os.path.join(SOURCE, "specs", "tiny.yaml")
        said = "is no multiple of num_attention_heads 4, and transformers 5 loads no Llama of that shape"
        self.assertIn("warning: hidden_size 66 " + said,
                      self.succeed(LLMC, "check", spec, "model.hidden_size=66", "model.head_dim=16").err)
        self.assertNotIn("transformers", self.succeed(LLMC, "check", spec).err)

    def test_wrong_words_that_are_often_meant(self):
        """A mistyped command, a model's configuration instead of a spec, a model's hub name instead of its folder."""
        self.assertIn("there is no command 'pan'; did you mean plan? the commands are",
                      harness.call(LLMC, "pan", "x.yaml").err)
        self.assertIn("error: write a command: check, config, ", harness.call(LLMC).err)
        self.assertIn("llmc run specs/tiny.yaml", harness.call(LLMC, "specs/tiny.yaml").err)
        for name, said in (("specs/tinny.yaml", "there is no such file\n  did you mean specs/tiny.yaml?"),
                           ("none/x.yaml", "`llmc init -o none/x.yaml` writes a new one")):
            self.assertIn(said, harness.call(LLMC, "check", name, cwd=SOURCE).err)
        with open(self.path("config.json"), "w") as file:
            json.dump({"model_type": "llama", "vocab_size": 320, "hidden_size": 64}, file)
        done = harness.call(LLMC, "check", "config.json", cwd=self.folder)
        self.assertEqual(done.code, 1)
        self.assertEqual(done.err.count("error"), 2)  # and the line that counts them
        self.assertIn("`llmc init --from config.json -o spec.yaml` writes a spec of its model", done.err)
        for name in ("meta-llama/Llama-3.2-1B", "https://huggingface.co/meta-llama/Llama-3.2-1B/"):
            done = harness.call(LLMC, "init", "--from", name, cwd=self.folder)
            self.assertEqual(done.code, 2)
            self.assertIn("\n  hf download meta-llama/Llama-3.2-1B --local-dir Llama-3.2-1B\n", done.err)
        self.assertNotIn("download", harness.call(LLMC, "init", "--from", "../nothing", cwd=self.folder).err)

    def test_specs_that_are_called_by_a_number(self):
        for name in ("7b", "13b"):
            self.assertIn(
                f"\nname: run-{name} ",
                self.succeed(LLMC, "init", "-o", self.path(name + ".yaml")).err +
                harness.read(self.path(name + ".yaml")).decode())

    def test_colour(self):
        """Colour on a terminal, unless NO_COLOR is set; never in a pipe."""
        command = [LLMC, "check", os.path.join(SOURCE, "specs", "tiny.yaml"), "model.hidden_size=0"]
        plain = harness.environment()
        plain.pop("NO_COLOR", None)
        self.assertIn("\033[", on_terminal(command, plain))
        self.assertNotIn("\033[", on_terminal(command, dict(plain, NO_COLOR="1")))
        self.assertNotIn("\033[", harness.call(*command, env=plain).err)

    def test_dump_ir(self):
        folder = self.path("ir")
        self.succeed(LLMC, "emit", os.path.join(SOURCE, "specs", "tiny.yaml"), "-o", self.path("dumped"), "--dump-ir",
                     folder)
        names = sorted(name for name in os.listdir(folder) if name.endswith(".txt"))
        self.assertEqual(names[0], "00-build.txt")
        self.assertGreater(len(names), 8)

    def test_check_says_what_is_not_there(self):
        """Warns of each file that a run would open, with the same exit code."""
        spec = harness.write_small(self.path("check"))
        self.assertEqual(self.succeed(LLMC, "check", spec).err, "")
        done = self.succeed(LLMC, "check", spec, "data.tokenizer=t.model", "data.train.path=no-*.bin", cwd="/")
        # Paths typed on the command line are relative to the current directory.
        self.assertEqual(
            done.err, "warning: data.tokenizer: no file matches '/t.model' here; a run needs it\n"
            "warning: data.train.path: no file matches '/no-*.bin' here; a run needs it\n")
        self.assertEqual(
            self.succeed(LLMC, "check", spec, "data.tokenizer=t.model", "sampling.every=0", "evaluation.every=0").err,
            "")
        # Nothing is decoded then, but a guard that shows samples needs it.
        self.assertIn(
            "t.model",
            self.succeed(LLMC, "check", spec, "data.tokenizer=t.model", "sampling.every=0", "evaluation.every=0",
                         "guards.log_text=true").err)

    def test_sizes(self):
        """Larger models take longer, by their FLOPs and the inefficiency of small ones. A size that is listed to fit
        has a plan."""
        rows = json.loads(
            self.succeed(LLMC, "sizes", "--device", "l40s", "--tokens", "1G", "--price", "2", "--json").out)
        fitting = [row for row in rows if row["fits"]]
        self.assertTrue(rows[0]["fits"] and not rows[-1]["fits"])
        for small, large in zip(fitting, fitting[1:]):
            work = large["parameters"] / small["parameters"]
            self.assertTrue(0.6 * work < large["run_seconds"] / small["run_seconds"] < 1.6 * work, (small, large))
        for row in fitting:
            self.assertLessEqual(row["arena_bytes"], 42 << 30)
            self.assertAlmostEqual(row["cost"], row["run_seconds"] / 1800)
        text = self.succeed(LLMC, "sizes", "--device", "l40s", "--tokens", "1G").out
        self.assertEqual(len(text.splitlines()), len(rows) + 2)
        self.assertEqual(text.count("does not fit"), len(rows) - len(fitting))
        for words in (["--device", "nothing"], ["--device", "no/such.yaml"], ["--tokens",
                                                                              "many"], ["--tokens", "9000000000G"],
                      ["--world", "0"], ["--price", "nan"], ["--price", "inf"], ["--price", "0"], ["--price", ""]):
            done = harness.call(LLMC, "sizes", *words)
            self.assertEqual((done.code, done.out), (2, ""), words)
            self.assertIn(words[0], done.err)

    def test_time_of_a_plan(self):
        """Its formula, its price, and the spec that pins it, which plans to the same trainer."""
        spec = "specs/llama-1b.yaml"
        words = ["batch.micro_batch=auto", "memory.loss_chunk=auto", "memory.recompute=auto", "memory.budget=50GiB"]
        plan = json.loads(self.succeed(LLMC, "plan", spec, *words, "--json", cwd=SOURCE).out)
        for key in ("step_seconds", "tokens_per_second", "choice", "alternatives", "device"):
            self.assertIn(key, plan)
        self.assertEqual(sorted(plan["choice"]), ["loss_chunk", "micro_batch", "recompute", "shard"])
        self.assertAlmostEqual(plan["tokens_per_second"] * plan["step_seconds"], 1 << 20)
        self.assertAlmostEqual(sum(row["seconds_a_step"] for row in plan["time"]["launches"]), plan["step_seconds"],
                               delta=1e-6)
        pinned = self.path("pinned.yaml")
        with open(pinned, "w", encoding="utf-8") as file:
            file.write(self.succeed(LLMC, "plan", spec, *words, "--pin", cwd=SOURCE).out)
        with open(pinned, encoding="utf-8") as file:
            self.assertNotIn("auto", re.sub(r"(attention|format|matmul): auto", "", file.read()))
        again = json.loads(self.succeed(LLMC, "plan", pinned, "--json").out)
        self.assertEqual((again["fingerprint"], again["choice"]), (plan["fingerprint"], plan["choice"]))
        text = self.succeed(LLMC, "plan", spec, "--explain", "adamw_copy_norms", cwd=SOURCE).out
        self.assertIn("(copy) = 12.31 ms", text)
        self.assertEqual(harness.call(LLMC, "plan", spec, "--explain", "adamm", cwd=SOURCE).code, 2)
        cost = self.succeed(LLMC, "plan", spec, "--price", "2.5", cwd=SOURCE).out.splitlines()[-1]
        hours, price = re.fullmatch(r"cost: ([\d.]+) device-hours, ([\d.]+) at 2.5 each; .*", cost).groups()
        self.assertAlmostEqual(float(price), 2.5 * float(hours), delta=0.02)

    def test_what_a_plan_advises(self):
        """As text, and with --hints as JSON: a hint's gain is that of the spec that it names."""
        spec = "specs/llama-1b.yaml"
        words = ["memory.recompute=full"]
        plan = json.loads(self.succeed(LLMC, "plan", spec, *words, "--json", "--hints", cwd=SOURCE).out)
        self.assertGreaterEqual(plan["limits"]["micro_batch"]["as_chosen"], plan["choice"]["micro_batch"])
        self.assertGreaterEqual(plan["limits"]["sequence_length"]["as_chosen"], plan["batch"]["sequence_length"])
        text = self.succeed(LLMC, "plan", spec, *words, cwd=SOURCE).out
        for hint in plan["hints"]:
            changed = {change["key"]: change["after"] for change in hint["changes"]}
            changed = [f"{key}={value}" for key, value in {"memory.recompute": "full", **changed}.items()]
            other = json.loads(self.succeed(LLMC, "plan", spec, *changed, "--json", cwd=SOURCE).out)
            self.assertAlmostEqual(plan["step_seconds"] - other["step_seconds"], hint["step_seconds_less"])
            self.assertIn(f"{-1e3 * hint['step_seconds_less']:+.1f} ms", text)
        self.assertIn("memory.recompute", [change["key"] for hint in plan["hints"] for change in hint["changes"]])
        self.assertIn(f"most that fits: micro_batch {plan['limits']['micro_batch']['as_chosen']}", text)

    def test_two_plans(self):
        """Side by side, as llmc diff shows them, with exit code 0; options of a single plan are refused."""
        spec = "specs/llama-1b.yaml"
        done = self.succeed(LLMC, "plan", spec, spec, "memory.recompute=full", cwd=SOURCE)
        self.assertEqual(done.out, harness.call(LLMC, "diff", spec, spec, "memory.recompute=full", cwd=SOURCE).out)
        report = json.loads(self.succeed(LLMC, "plan", spec, spec, "memory.recompute=full", "--json",
                                         cwd=SOURCE).out)["plans"]
        for side, words in (("before", []), ("after", ["memory.recompute=full"])):
            plan = json.loads(self.succeed(LLMC, "plan", spec, *words, "--json", cwd=SOURCE).out)
            self.assertEqual(report["choice"][side], plan["choice"])
            self.assertEqual(report["step_seconds"][side], plan["step_seconds"])
            self.assertEqual(
                {row["name"]: row[side]
                 for row in report["memory"] if row[side]},
                {section["name"]: section["bytes"]
                 for section in plan["memory"]["sections"] if section["bytes"]})
            self.assertAlmostEqual(sum(row[side] for row in report["time"]), plan["step_seconds"], delta=1e-6)
        for words in (["--launches"], ["--pin"], ["--world",
                                                  "2"], ["--price",
                                                         "1"], ["--html", self.path("two.html")], ["--device", "h200"]):
            self.assertEqual(harness.call(LLMC, "plan", spec, spec, *words, cwd=SOURCE).code, 2)
        done = harness.call(LLMC, "plan", spec, spec, "memory.budget=1GiB", cwd=SOURCE)
        self.assertEqual(done.code, 4)
        self.assertIn(f"error: {spec} memory.budget=1GiB: this run needs ", done.err)

    def test_ranks_of_a_plan_show_what_they_share(self):
        words = [
            "specs/llama-8b.yaml", "--world", "8", "parallel.shard=auto", "batch.micro_batch=auto",
            "memory.budget=77GiB"
        ]
        plan = json.loads(self.succeed(LLMC, "plan", *words, "--json", cwd=SOURCE).out)
        self.assertIn(plan["choice"]["shard"], ("optimizer", "gradients", "parameters"))
        self.assertEqual(plan["ranks"]["shard"], plan["choice"]["shard"])
        text = self.succeed(LLMC, "plan", *words, cwd=SOURCE).out
        self.assertIn(f"ranks: 8, shard {plan['choice']['shard']};", text)

    def test_a_plan_for_another_device(self):
        """--device resets values meant for another device, and prints the keys that keep them."""
        for spec, device, words in (
            ("llama-1b", "rtx-4090",
             "'target.arch=[89]' target.device=rtx-4090 memory.budget=rtx-4090 parallel.world_size=8"),
            ("llama-1b", "h200", "target.device=h200 memory.budget=h200 parallel.world_size=8"),
            ("quickstart", "b200",
             "target.kind=cuda 'target.arch=[100a]' target.device=b200 memory.budget=b200 precision.compute=bf16 parallel.world_size=8"
             )):
            spec = f"specs/{spec}.yaml"
            more = ["batch.tokens=1Mi", "batch.micro_batch=auto", "memory.loss_chunk=auto"]
            done = self.succeed(LLMC, "plan", spec, *more, "--device", device, "--world", "8", "--json", cwd=SOURCE)
            self.assertEqual(
                done.err,
                f"note: planned for {device} with {words}; keep these words after the spec's name, or write them there\n"
            )
            self.assertEqual(json.loads(done.out)["device"]["name"], device)
            kept = self.succeed("sh", "-c", f"{LLMC} plan {spec} {' '.join(more)} {words} --json", cwd=SOURCE)
            self.assertEqual((kept.out, kept.err), (done.out, ""))
        # Typed values are kept.
        done = self.succeed(LLMC, "plan", "specs/llama-1b.yaml", "memory.budget=60GiB", "--device", "h200", "--json",
                            cwd=SOURCE)
        self.assertEqual(json.loads(done.out)["memory"]["budget_bytes"], 60 << 30)
        done = harness.call(LLMC, "plan", "specs/llama-1b.yaml", "target.device=rtx-4090", cwd=SOURCE)
        self.assertIn("`llmc plan SPEC --device rtx-4090` plans for it", done.err)
        for words, said in (([], "--device: no device is called rtx-409; did you mean rtx-4090?"), (["specs/tiny.yaml"],
                                                                                                    "second spec")):
            done = harness.call(LLMC, "plan", "specs/tiny.yaml", *words, "--device", "rtx-409", cwd=SOURCE)
            self.assertEqual((done.code, done.out), (2, ""))
            self.assertIn(said, done.err)
        self.assertRegex(self.succeed(LLMC, "devices").out, r"(?m)^h100-sxm +90a ")

    def test_options_of_a_plan_that_say_nothing_or_the_same(self):
        spec = os.path.join(SOURCE, "specs", "tiny.yaml")
        for words in (["--html", ""], ["--explain", ""], ["--measured", ""], ["--measured", self.folder],
                      ["--price", "nan"], ["--pin", "--explain",
                                           "adamw"], ["--kernels", "--json",
                                                      "--hints"], ["--measured", spec, "--json", "--hints"]):
            done = harness.call(LLMC, "plan", spec, *words)
            self.assertEqual((done.code, done.out), (2, ""), words)
            self.assertIn(words[0], done.err)

    def test_a_device_of_ones_own(self):
        """A device file given by path; times use its rates."""
        folder = self.path("device")
        spec = harness.write_small(folder, harness.SMALL)
        text = self.succeed(LLMC, "devices", "cpu").out
        for name, rate in (("slow", "1e9"), ("fast", "1e10")):
            with open(os.path.join(folder, name + ".yaml"), "w", encoding="utf-8") as file:
                file.write(re.sub(r"(copy|cache_copy|product_fp32): {value: [^,]*", rf"\1: {{value: {rate}", text))

        def seconds(spec, *words, **options):
            return json.loads(self.succeed(LLMC, "plan", spec, *words, "--json", **options).out)["step_seconds"]

        slow = seconds(spec, "target.device=slow.yaml", cwd=folder)  # typed: relative to the current directory
        self.assertGreater(slow, 2 * seconds(spec, "target.device=fast.yaml", cwd=folder))
        with open(spec, encoding="utf-8") as file:
            lines = file.read()
        self.assertEqual(lines.count("target: {"), 1)
        named = os.path.join(folder, "named.yaml")
        with open(named, "w", encoding="utf-8") as file:
            file.write(lines.replace("target: {", "target: {device: slow.yaml, "))
        self.assertEqual(seconds(named, cwd="/"), slow)  # written: relative to the spec
        done = harness.call(LLMC, "plan", spec, "target.device=h100-sxm")
        self.assertEqual(done.code, 1)
        self.assertIn("target.device h100-sxm is of compute capability 90, and target.kind is cpu", done.err)

    def test_diff_wants_two_specs(self):
        for words in (["specs/tiny.yaml"], ["specs/tiny.yaml", "optimizer.lr=1"]):
            done = harness.call(LLMC, "diff", *words, cwd=SOURCE)
            self.assertEqual((done.code, done.out), (2, ""))
            self.assertRegex(done.err, r"llmc diff (SPEC|specs/tiny.yaml) (SPEC|specs/tiny.yaml) '?(key|optimizer)")

    def test_bf16x3_is_never_something_else(self):
        """A plan says which GEMMs use it; it is refused for machines without tiles and sources for any machine."""
        spec = harness.write_small(self.path("bf16x3"))
        named = [*harness.BF16X3, "target.arch=sapphirerapids"]
        plan = json.loads(self.succeed(LLMC, "plan", spec, *named, "--json").out)
        self.assertEqual(plan["matmul"], "bf16x3")
        by = {product["name"]: product["by"] for product in plan["products"]}
        in_fp32 = sorted(name for name in by if by[name] == "oneDNN")
        self.assertEqual(in_fp32, ["lm_head_dgrad", "lm_head_forward", "lm_head_wgrad", "sample_logits_forward"])
        self.assertEqual(set(by.values()), {"oneDNN", "bf16x3 in tiles"})
        text = self.succeed(LLMC, "plan", spec, *named).out
        self.assertIn(
            f"matmul bf16x3: {len(by) - 4} of {len(by)} products in AMX tiles; with a side that is no multiple of 32, "
            "and so in fp32 by oneDNN: ", text)
        self.assertIn("(bf16x3 in tiles)", self.succeed(LLMC, "plan", spec, *named, "--launches").out)
        self.assertNotIn("bf16x3", self.succeed(LLMC, "plan", spec, *named[1:]).out)
        words = ["write target.arch: sapphirerapids", "precision.matmul: auto"]
        refused = [("emit", "-o", self.path("emitted"))]
        if harness.has_tiles():
            self.succeed(LLMC, "plan", spec, *harness.BF16X3)
        else:
            refused += [("plan", ), ("compile", "-o", self.path("compiled")), ("run", ), ("verify", )]
        for command, *options in refused:
            done = harness.call(LLMC, command, spec, *harness.BF16X3, *options, cwd=self.folder)
            self.assertEqual((done.code, done.out), (3, ""), command)
            for word in ["precision.matmul: bf16x3 needs a processor with AMX", *words]:
                self.assertIn(word, done.err)
        self.assertEqual(harness.call(LLMC, "diff", spec, spec, *harness.BF16X3).code, 3)
        self.assertIn(": good (", self.succeed(LLMC, "check", spec, *harness.BF16X3).out)

    def test_does_not_fit(self):
        done = harness.call(LLMC, "plan", "specs/tiny.yaml", "memory.budget=1MiB", cwd=SOURCE)
        self.assertEqual((done.code, done.out), (4, ""))
        for word in ("1.00 MiB", "micro_batch",
                     "write memory.budget: "):  # its state alone is larger, so nothing else helps
            self.assertIn(word, done.err)
        done = harness.call(LLMC, "plan", "specs/tiny.yaml", "target.arch=x86-64-v4", "memory.budget=44MiB",
                            "memory.recompute=none", cwd=SOURCE)
        self.assertEqual(done.code, 4)
        for word in ("memory.recompute: ", " MiB  the process beside its arena"):
            self.assertIn(word, done.err)

    def test_what_would_fit_does(self):
        """llmc can plan every suggestion for a run that does not fit, as written."""
        seen = set()
        for spec, sizes in (("llama-1b", [
            ("24GiB", ), ("23GiB", "batch.micro_batch=1", "memory.loss_chunk=2048", "memory.recompute=none"),
            ("40GiB", ), ("54GiB", "memory.loss_chunk=32768"), ("23GiB", "batch.micro_batch=auto"),
            ("23GiB", "memory.loss_chunk=2048"),
            ("21400MiB", "batch.micro_batch=1", "memory.loss_chunk=auto", "memory.recompute=full"),
            ("20GiB", "batch.micro_batch=1", "memory.loss_chunk=1024", "memory.recompute=full")
        ]), ("tiny", [("1MiB", ), ("2MiB", ), ("3MiB", ), ("4MiB", )])):
            for budget, *overrides in sizes:
                words = ["plan", f"specs/{spec}.yaml", *overrides]
                done = harness.call(LLMC, *words, f"memory.budget={budget}", cwd=SOURCE)
                self.assertEqual((done.code, done.out), (4, ""), f"{words} {budget}\n{done.err}")
                said = re.search(
                    r"\nwrite (.*), where the device has it(, or make the model smaller)?(\non several devices it fits from \d+ on, with (.*))?\n$",
                    done.err)
                self.assertEqual(bool(said[4]), spec == "llama-1b")  # on a CPU ranks share memory
                ways = said[1].split(", or ") + [said[4]] * bool(said[4])
                for way in ways:
                    changes = dict(re.findall(r"([a-z_.]+): (\[.*?\]|\S+)", way))
                    seen |= {tuple(changes)}
                    kept = {word.split("=")[0]: word.split("=")[1] for word in [*overrides, f"memory.budget={budget}"]}
                    if "batch.micro_batch" in changes:
                        self.assertNotEqual(kept.get("batch.micro_batch"), "1", way)
                    self.succeed(LLMC, "plan", f"specs/{spec}.yaml",
                                 *[f"{key}={value}" for key, value in {**kept, **changes}.items()], cwd=SOURCE)
        for way in [("batch.micro_batch", ), ("memory.loss_chunk", ), ("batch.micro_batch", "memory.loss_chunk"),
                    ("memory.recompute", ), ("batch.sequence_length", ), ("memory.budget", )]:
            self.assertIn(way, seen)


if __name__ == "__main__":
    harness.main()

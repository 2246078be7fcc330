"""Phases of a run: a trainer each, one run folder, and the bits of an undisturbed run wherever it was killed."""

import json
import os
import random
import re
import shutil
import signal
import subprocess

import harness
from harness import LLMC, SOURCE
from phased import STEPS, PhasedTest
from ranks import environment, mpirun

# Half of the steps with 24 tokens a sample; then shorter samples, other angles, more of the second source.
PHASES = """phases:
  - {until: 50%}
  - {until: 75%, batch: {sequence_length: 12, micro_batch: 4}, model: {rope_theta: 5.0e4}, data: {train: {second: {weight: 0.6}}}}
  - {until: 100%, batch: {sequence_length: 12, micro_batch: 4}, memory: {loss_chunk: 24}, model: {rope_theta: 5.0e4}, optimizer: {weight_decay: 0.05}}
"""
BORDERS = (12, 18)


class Phases(PhasedTest):

    phases = PHASES
    keep_last = 1

    def test_one_folder_and_one_history(self):
        run = self.whole[1]
        # Retention keeps the borders.
        self.assertEqual(sorted(os.listdir(os.path.join(run, "checkpoints"))),
                         [f"step-{step:08}" for step in (*BORDERS, STEPS)])
        history = self.history(run)
        self.assertEqual([(line["step"], line.get("phase")) for line in history], [(0, 1), (12, 2), (18, 3)])
        self.assertEqual(
            sorted(history[1]["changed"]),
            sorted(["model.rope_theta", "batch.sequence_length", "batch.micro_batch", "data.train.second.weight"]))
        self.assertEqual(
            history[2]["changed"], {
                "memory.loss_chunk": ["16", "24"], "optimizer.weight_decay": ["0.1", "0.05"],
                "data.train.second.weight": ["0.6", "0.3"]
            })
        self.assertEqual([line["step"] for line in self.metrics(run)], list(range(1, STEPS + 1)))
        self.assertEqual(json.loads(self.succeed(LLMC, "runs", run, "--json").out)["runs"][0]["state"], "finished")

    def test_trainers_by_hand(self):
        run = self.path("by-hand")
        done = harness.call(self.trainer(2), "--run", run)
        self.assertEqual(done.code, 2, done.err)
        self.assert_facts(done.err, "step 0", "phase 1", "trainer of phase 2", f"{self.trainer(1)} --run {run}")
        for phase in (1, 2):
            done = harness.call(self.trainer(phase), "--run", run)
            self.assertEqual(done.code, 75, done.err)
            self.assert_facts(done.err, f"at step {BORDERS[phase - 1]}", f"phase {phase} of 3 is done",
                              f"{self.trainer(phase + 1)} --run {run}")
            again = harness.call(self.trainer(phase), "--run", run)
            self.assertEqual((again.code, again.err.splitlines()[-2:]), (75, done.err.splitlines()[-2:]))
        done = harness.call(self.trainer(2), "--run", run)
        self.assert_facts(done.err, "Start phase 3 with")
        self.succeed(self.trainer(3), "--run", run)
        self.assert_same_run(run)
        self.assertEqual(harness.call(self.trainer(3), "--run", run).code, 0)
        done = harness.call(self.trainer(1), "--run", run, "schedule.steps=99")
        self.assertEqual(done.code, 2)
        self.assert_facts(done.err, "schedule.steps is compiled in")
        done = harness.call(self.trainer(3), "--run", run, "--steps", 40)
        self.assertEqual(done.code, 2)
        self.assert_facts(done.err, "--steps 40", "llmc run SPEC schedule.steps=40")

    def test_another_trainer_keeps_a_schedule(self):
        run = self.path("kept-schedule")
        self.succeed(self.trainer(1), "--run", run, "--steps", 8)
        for trainer, words in ((1, ("schedule.from_step=8", "schedule.warmup_steps=2")), (2, ())):
            self.assertEqual(harness.call(self.trainer(trainer), "--run", run, *words).code, 75)
        self.assertEqual(
            [sorted(line["changed"]) for line in self.history(run)[2:]],
            [["batch.micro_batch", "batch.sequence_length", "data.train.second.weight", "model.rope_theta"]])

    def test_another_launcher(self):
        """mpirun starts the ranks of one trainer: its exit code and its last line say that another one is next."""
        run = self.path("launched")
        # As many threads as the undisturbed run has: on some processors they decide the order of sums in products.
        env = environment() | {"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")}
        for phase in (1, 2):
            done = harness.call(*mpirun(2, self.trainer(phase), "--run", run), env=env)
            self.assertEqual(done.code, 75, done.out + done.err)
            self.assert_facts(done.err, f"at step {BORDERS[phase - 1]}", f"phase {phase} of 3 is done",
                              f"Start phase {phase + 1} with", f"{self.trainer(phase + 1)} --run {run}")
        self.succeed(*mpirun(2, self.trainer(3), "--run", run), env=env)
        self.assert_same_run(run, 2)

    def test_kills(self):
        """In each phase, and between a border's save and the next one; with one rank and with two."""
        for ranks in (1, 2):
            run = self.path(f"killed-{ranks}")
            for step in (4, 12, 16, 18, 20):
                self.kill_when(self.words(run, ranks), lambda: harness.newest_checkpoint(run) >= step)
            done = self.succeed(*self.words(run, ranks))
            self.assert_same_run(run, ranks)
            self.assertIn(f"{STEPS}", done.out + done.err)

    def test_options_of_one_start(self):
        """Those that a trainer takes once do not stop the chain, and --steps ends it."""
        run = self.path("resumed")
        self.succeed(self.trainer(1), "--run", self.path("before"), "--steps", 4)
        old = self.path("before", "checkpoints", "step-00000004")
        timeline = ("--timeline", self.path("timeline.json"), "--timeline-steps", "6:2")
        self.succeed(*self.words(run), "--resume", old, *timeline, "--no-final-checkpoint", "checkpoint.every=5")
        self.assertEqual(sorted(os.listdir(os.path.join(run, "checkpoints"))),
                         ["step-00000012", "step-00000018", "step-00000020"])
        self.assertTrue(os.path.exists(self.path("timeline.json")))
        run = self.path("short")
        for phase, steps in ((1, 12), (1, 12), (1, 18), (3, 18)):
            words = self.words(run) if phase == 3 else (self.trainer(1), "--run", run)
            done = harness.call(*words, "--steps", steps)
            self.assertEqual(done.code, 75 if (phase, steps) == (1, 18) else 0, done.err)
        done = self.succeed(self.trainer(1), "--run", run, "--steps", 18)
        self.assertIn("nothing to do: the run is at step 18", done.out)
        # A trainer knows the samples of its own steps, also before the first of them.
        done = harness.call(self.trainer(1), "--run", self.path("before"), "--batches", "12:2")
        self.assertEqual(done.code, 2, done.err)
        self.assert_facts(done.err, "step 13", "phase 2", "up to step 12", self.trainer(2))
        done = harness.call(self.trainer(2), "--run", self.path("before"), "--batches", "13")
        self.assertEqual(done.code, 2, done.err)
        self.assert_facts(done.err, "step 13", "at step 4, in phase 1")
        self.assertEqual(harness.call(self.trainer(1), "--run", self.path("border")).code, 75)
        lines = self.succeed(self.trainer(2), "--run", self.path("border"), "--batches", "13", "--json").out
        self.assertEqual(json.loads(lines)["sequence_length"], 12)
        # A longer run is compiled: its borders are other steps.
        done = harness.call(LLMC, "run", self.spec, "schedule.steps=40", "-o", self.path("longer"), "--", "--run",
                            self.path("longer-run"))
        self.assertEqual(done.code, 0, done.err)
        history = self.history(self.path("longer-run"))
        self.assertEqual([(line["step"], line["phase"]) for line in history], [(0, 1), (20, 2), (30, 3)])
        # One phase alone is built beside the others.
        done = self.succeed(LLMC, "compile", self.spec, "phase=2", "-o", self.out)
        self.assert_facts(done.out, self.trainer(2))

    def test_a_signal_stops_the_chain(self):
        spec = self.write_spec("long.yaml", PHASES, (f"steps: {STEPS}", "steps: 200000"),
                               ("most_epochs: 1000", "most_epochs: 1000000"))
        process = self.start(LLMC, "run", spec, "-o", self.path("long"), "--", "--run", self.path("long-run"),
                             stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.until(process, lambda: harness.newest_checkpoint(self.path("long-run")) >= 8)
        process.send_signal(signal.SIGTERM)
        errors = process.communicate(timeout=harness.HANGS)[1]
        self.assertEqual(process.returncode, 75)
        self.assert_facts(errors, "stopped by SIGTERM", "Resume with")
        self.assertNotIn("Start phase", errors)

    def test_a_signal_between_a_border_and_the_next_trainer(self):
        """The border's checkpoint is whole, and removing the one before it takes half a second."""
        for ranks in (1, 2):
            run, slow = self.path(f"between-{ranks}"), self.path("slow")
            self.write("slow", "")
            env = harness.environment() | {"LD_PRELOAD": os.environ["LLMC_FAIL_SHIM"], "LLMC_FAIL_SLOW": slow}
            process = self.start(*self.words(run, ranks), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                 env=env)
            self.until(process, lambda: harness.newest_checkpoint(run) >= 12)
            process.send_signal(signal.SIGTERM)
            errors = process.communicate(timeout=harness.HANGS)[1]
            os.remove(slow)
            self.assertEqual(process.returncode, 75, errors)
            self.assert_facts(errors,
                              *(("phase 1 of 3 is done", "Start phase 2 with") if ranks == 1 else ("resume with", )))
            self.assertEqual([phase for _, phase in self.begun(run)], [1])
            self.succeed(*self.words(run, ranks))
            self.assert_same_run(run, ranks)

    def test_tokens_of_the_command_line_decide_each_phase(self):
        spec = self.write_spec("auto.yaml", "phases: [{until: 50%}, {until: 100%, batch: {micro_batch: auto}}]\n")
        run, out = self.path("auto"), self.path("auto-build")
        self.assertIn("micro_batch: 4", self.succeed(LLMC, "plan", spec, "phase=2", "--pin").out)
        self.succeed(LLMC, "run", spec, "batch.tokens=48", "-o", out, "--", "--run", run)
        self.assertEqual(
            json.loads(harness.read(os.path.join(run, "metrics.jsonl")).splitlines()[-1])["tokens"], 48 * STEPS)

    def test_the_whole_plan(self):
        plan = json.loads(self.succeed(LLMC, "plan", self.spec, "--json").out)
        run, phases = plan["run"], plan["phases"]
        self.assertEqual([(phase["phase"], phase["until"], phase["trainer"]) for phase in phases], [(1, 12, 1),
                                                                                                    (2, 18, 2),
                                                                                                    (3, 24, 3)])
        self.assertEqual(run["tokens"], 96 * STEPS)
        self.assertAlmostEqual(
            run["seconds"], sum(12 // (1 + (i > 0)) * phase["plan"]["step_seconds"] for i, phase in enumerate(phases)))
        self.assertAlmostEqual(run["device_hours"], run["seconds"] / 3600)
        # Both borders, the last checkpoint, and the one that is being written.
        self.assertEqual(run["disk"]["kept_borders"], 2)
        self.assertEqual(run["disk"]["most_bytes"], 4 * run["disk"]["checkpoint_bytes"])
        table = self.succeed(LLMC, "plan", self.spec, "--price", 1000).out
        self.assertRegex(table, r"(?m)^trainer +phase-1 +phase-2 +phase-3 *$")
        self.assertRegex(table, r"(?m)^run: 24 steps, 2304 tokens, .* in 4 checkpoints, 2 of them of borders$")
        self.assertRegex(table, r"(?m)^price( +[0-9.]+){4}$")

    def test_comparisons(self):
        other = self.write_spec("other.yaml", PHASES, ("until: 75%", "until: 80%"), ("5.0e4", "6.0e4"))
        done = harness.call(LLMC, "diff", self.spec, other)
        self.assertEqual(done.code, 1, done.err)
        parts = done.out.split("phase ")
        self.assertTrue(parts[1].startswith("1, until step 12"), done.out)
        self.assertNotIn("rope_theta", parts[1])
        self.assert_facts(done.out, "phase 2, until step 18 -> 19", "rope_theta")
        done = harness.call(LLMC, "diff", self.spec, self.spec, "schedule.steps=30")
        self.assert_facts(done.out, "schedule.steps: 24 -> 30", "kernels: the same")
        self.assertNotIn("take these as key=value", done.out)
        self.assertEqual(harness.call(LLMC, "diff", self.spec, self.spec).code, 0)
        listed = json.loads(harness.call(LLMC, "diff", self.spec, other, "--json").out)
        self.assertEqual([(of["phase"], of["until"]) for of in listed], [(1, [12, 12]), (2, [18, 19]), (3, [24, 24])])
        done = harness.call(LLMC, "diff", self.spec, "phase=1", self.spec, "phase=2")
        self.assertEqual(done.code, 1, done.err)
        self.assert_facts(done.out, "phase=1", "phase=2", "sequence_length", "rope_theta")
        done = harness.call(LLMC, "diff", self.spec, "phase=1", self.spec)
        self.assertEqual(done.code, 2)
        self.assert_facts(done.err, "is one trainer", "has 3 phases",
                          f"llmc diff {self.spec} phase=1 {self.spec} phase=1")
        done = harness.call(LLMC, "diff", self.spec, "phase=1")
        self.assertEqual(done.code, 2)
        self.assert_facts(done.err, "second spec is missing")

    def test_config_and_verify_of_all_phases(self):
        texts = self.succeed(LLMC, "config", self.spec).out.split("---\n")
        self.assertEqual([text.splitlines()[0].split(";")[0] for text in texts],
                         [f"# phase {i} of 3, up to step {end}" for i, end in ((1, 12), (2, 18), (3, 24))])
        self.assertRegex(texts[1], r"(?m)^  sequence_length: 12 ")
        keys = json.loads(self.succeed(LLMC, "config", self.spec, "--json").out)
        self.assertEqual([(of["phase"], of["until"]) for of in keys], [(1, 12), (2, 18), (3, 24)])
        self.assertTrue(all(any(key["key"] == "model.rope_theta" for key in of["keys"]) for of in keys))
        done = self.succeed(LLMC, "verify", self.spec, "-o", self.path("verified"))
        self.assertEqual([line for line in done.out.splitlines() if line.startswith("phase ")],
                         ["phase 1", "phase 2", "phase 3"])
        done = harness.call(LLMC, "verify", self.spec, "--emit-only", "-o", self.path("verified"))
        self.assertEqual(done.code, 2)
        self.assert_facts(done.err, "3 phases with 3 trainers", "phase=1")

    def test_other_commands(self):
        done = self.succeed(LLMC, "plan", self.spec, "--device", "h100-80gb")
        self.assert_facts(done.err, "planned for h100-80gb with target.kind=cuda")
        table = self.succeed(LLMC, "plan", self.spec).out
        self.assertRegex(table, r"(?m)^until step +12 +18 +24 +24$")
        self.assertRegex(table, r"(?m)^sequence +24 +12 +12 *$")
        self.assert_facts(table, "phase 2 changes model.rope_theta", "phase 3 changes")
        # One schedule for the whole run, and one for each phase where their rates differ.
        self.assertEqual(len(re.findall(r"(?m)^  \S.* at step 1, at most .* at step 24$", table)), 1)
        rates = self.write_spec("rates.yaml", "phases: [{until: 50%}, {until: 100%, optimizer: {lr: 1.0e-4}}]\n")
        rates = self.succeed(LLMC, "plan", rates).out
        self.assertRegex(rates, r"(?m)^  .* at most 1\.00e-04, .* at step 24, in phase 2$")
        checked = self.succeed(LLMC, "check", self.spec, "data.train.second.path=none-*.bin").err
        self.assertEqual(checked.count("none-*.bin"), 1, "phases have a warning in common")
        checked = self.succeed(LLMC, "check", self.spec).out
        self.assert_facts(checked, "phase 1, up to step 12: good", "phase 2, up to step 18: good", "phase 3")
        config = self.succeed(LLMC, "config", self.spec, "phase=2").out
        self.assertRegex(config, r"(?m)^  sequence_length: 12 ")
        self.assert_facts(self.succeed(LLMC, "plan", self.spec, "phase=2").out, "4 sequences of 12")
        self.succeed(LLMC, "verify", self.spec, "phase=2")
        for command, words, facts in (("config", ("phase=4", ), ("no phase 4", "1 to 3")),
                                      ("emit", ("-o", self.path("emitted")),
                                       ("3 phases", )), ("sweep", ("optimizer.lr=1e-3,2e-3", "-o", self.path("swept")),
                                                         ("has phases", )), ("plan", ("phase=0", ), ("no phase 0", ))):
            done = harness.call(LLMC, command, self.spec, *words)
            self.assertEqual(done.code, 2, done.err)
            self.assert_facts(done.err, *facts)
        plain = self.write_spec("plain.yaml", "")
        done = harness.call(LLMC, "check", plain, "phase=1")
        self.assertEqual(done.code, 2)
        self.assert_facts(done.err, "has none")

    def test_the_whole_run_in_miniature(self):
        """README's commands on specs/seed-1b.yaml: four sources, a tokenizer, the plan, both phases, an export."""
        rng, words = random.Random(3), ["the", "of", "loss", "and", "return", "def", "lemma", "proof", "x", "1"]
        for number, source in enumerate(("web", "wiki", "code", "math")):
            os.makedirs(self.path("text", source))
            for file in range(3):
                with open(self.path("text", source, f"{file}.txt"), "w") as out:
                    out.write(" ".join(rng.choice(words[number:number + 7]) for _ in range(2000)))
            tokenizer = ("--vocab-size", 330) if number == 0 else ("--tokenizer", self.path("data", "seed", "web"))
            self.succeed(LLMC, "data", "build", "--from", self.path("text", source), *tokenizer, "-o",
                         self.path("data", "seed", source))
        os.makedirs(self.path("specs"))
        shutil.copy(os.path.join(SOURCE, "specs", "seed-1b.yaml"), self.path("specs", "seed-1b.yaml"))
        small = self.write(
            "specs/small.yaml", """extends: seed-1b.yaml
model: {vocab_size: 384, hidden_size: 32, num_hidden_layers: 2, num_attention_heads: 4, num_key_value_heads: 2,
  intermediate_size: 48}
precision: {compute: fp32}
batch: {sequence_length: 16, micro_batch: auto, tokens: 256}
memory: {budget: 256MiB, recompute: auto, loss_chunk: auto}
schedule: {steps: 20, warmup_steps: 2}
phases:
  - until: 90%
  - until: 100%
    batch: {sequence_length: 32}
    model: {rope_theta: 1.0e6}
    data:
      train: {code: {weight: 0.4}}
evaluation: {every: 10, sequences: 8}
checkpoint: {every: 10}
parallel: {world_size: 2}
target: {kind: cpu, arch: native}
""")
        self.assert_facts(self.succeed(LLMC, "plan", small).out, "18  ", "20  ", "phase 2 changes model.rope_theta")
        out = self.path("build-seed")
        done = self.succeed(LLMC, "run", small, "-o", out, "--", "--ranks", 2, cwd=self.folder)
        self.assert_facts(done.out, "20/20")
        run = self.path("specs", "runs", "seed-1b")
        self.assertEqual(self.begun(run), [(0, 1), (18, 2)])
        last = self.metrics(run)[-1]
        self.assertEqual(last["step"], 20)
        self.assertTrue({f"tokens/{name}" for name in ("web", "wiki", "code", "math")} <= set(last), sorted(last))
        self.succeed(LLMC, "checkpoint", "export", run, "-o", self.path("exported"))
        with open(self.path("exported", "config.json")) as file:
            self.assertEqual(json.load(file)["rope_theta"], 1e6)

    def test_refused_phases(self):
        for phases, code, facts in (
            ("phases: 3\n", "E0350", ("list of two phases", )),
            ("phases: [{until: 100%}]\n", "E0350", ("list of two phases", )),
            ("phases: [{until: 50%}, {batch: {micro_batch: 1}}]\n", "E0350", ("no `until`", )),
            ("phases: [{until: 50%}, {until: 100%, schedule: {kind: constant}}]\n", "E0350", ("its own schedule", )),
            ("phases: [{until: 50%}, {until: 100%, parallel: {world_size: 2}}]\n", "E0350", ("its own parallel", )),
            ("phases: [{until: 50%}, {until: 40%}]\n", "E0351", ("40%", "between step 12")),
            ("phases: [{until: 50%}, {until: 90%}]\n", "E0351", ("ends at step 22 of 24", "until: 100%")),
            ("phases: [{until: x}, {until: 100%}]\n", "E0351", ("until is x", )),
            ("phases: [{until: 12}, {until: 25}]\n", "E0351", ("until 25", )),
            ("phases: [{until: 50%}, {until: 100%, model: {hidden_size: 40}}]\n", "E0352", ("model.hidden_size", "36",
                                                                                            "40", "phase 2")),
            ("phases: [{until: 50%}, {until: 100%, optimizer: {kind: lion}}]\n", "E0352", ("optimizer.kind", )),
            ("phases: [{until: 50%}, {until: 100%, model: {rope_interleaved: true}}]\n", "E0352",
             ("model.rope_interleaved", )),
            ("phases: [{until: 50%, optimizer: {kind: muon}}, "
             "{until: 100%, optimizer: {kind: muon, muon: {normalise: neurons}}}]\n", "E0352",
             ("optimizer.muon.normalise", )),
            ("phases: [{until: 50%}, {until: 100%, optimizer: {lrr: 1}}]\n", "E0201", ("lrr", )),
        ):
            with self.subTest(phases=phases):
                path = self.write_spec("refused.yaml", phases)
                done = harness.call(LLMC, "check", path)
                self.assertEqual(done.code, 1, done.out + done.err)
                self.assert_facts(done.err, code, *facts)
        done = harness.call(LLMC, "check", self.spec, "phases=1")
        self.assertEqual(done.code, 1)
        self.assert_facts(done.err, "E0350", "command line")


if __name__ == "__main__":
    harness.main()

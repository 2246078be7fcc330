"""`llmc calibrate` and `trainer calibrate`: plans use the written figures. No figure is compared, because machines
differ."""

import json
import os
import re

import harness
from harness import LLMC, RunTest

SHORT = ("--seconds", "0", "--sizes", "32", "64")


class Calibrate(RunTest):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.spec = harness.write_small(cls.folder)

    def config(self, name, **changes):
        return harness.environment(XDG_CONFIG_HOME=self.path(name), **changes)

    def planned(self, env, *words):
        return json.loads(self.succeed(LLMC, "plan", self.spec, "--json", *words, env=env).out)

    def test_this_machine(self):
        env = self.config("config")
        before = self.planned(env)
        scratch = self.path("scratch")
        os.makedirs(scratch)
        done = self.succeed(LLMC, "calibrate", *SHORT, "--threads", "1", env=dict(env, TMPDIR=scratch))
        self.assertEqual(os.listdir(scratch), [], "nothing stays of the trainers that measured")
        folder = self.path("config", "llmc", "devices")
        self.assertEqual(os.listdir(folder), ["cpu.yaml"], "one file, and none that was to become it")
        self.assertIn(os.path.join(folder, "cpu.yaml"), done.out)
        text = harness.read(os.path.join(folder, "cpu.yaml")).decode()
        self.assertRegex(text, r"processors: {value: 1, from: \"[^\"]*llmc calibrate, \d{4}-\d\d-\d\d, .*, 1 thread, ")
        self.assertRegex(text, r"memory: {value: \d+MiB, from: \"assumed")
        # Times are planned with the figures shown by `llmc devices`.
        self.assertIn(text, self.succeed(LLMC, "devices", "cpu", env=env).out)
        self.assertNotEqual(self.succeed(LLMC, "devices", env=env).out, self.succeed(LLMC, "devices").out)
        # A spec without a device is planned with this one, as is one that names the file.
        after = self.planned(env)
        self.assertNotEqual(after["step_seconds"], before["step_seconds"])
        self.assertEqual(
            self.planned(harness.environment(), "target.device=" + os.path.join(folder, "cpu.yaml"))["step_seconds"],
            after["step_seconds"])
        self.assertEqual(self.planned(harness.environment())["step_seconds"], before["step_seconds"])
        self.assertEqual(after["fingerprint"], before["fingerprint"], "a device is a label")
        said = self.succeed(LLMC, "plan", self.spec, "--explain", "o_forward", env=env).out
        self.assertRegex(said, r"\(forward at 48 x 36 x 60\)")
        for precision in ("fp32", "bf16"):
            self.assertIn(
                f"(kernels_{precision}) = ",
                self.succeed(LLMC, "plan", self.spec, f"precision.compute={precision}", "--explain", "swiglu_forward",
                             env=env).out)

    def test_a_file_of_the_default_gpu(self):
        """A spec without a device is planned with a user's file of the GPU that it is planned for."""

        def planned(env):
            spec = os.path.join(harness.SOURCE, "specs", "llama-1b.yaml")
            return json.loads(self.succeed(LLMC, "plan", spec, "--json", env=env).out)

        env, folder = self.config("gpu"), self.path("gpu", "llmc", "devices")
        before = planned(env)
        self.assertEqual(before["device"]["name"], "h100-sxm")
        os.makedirs(folder)
        text = self.succeed(LLMC, "devices", "h100-sxm").out
        with open(os.path.join(folder, "h100-sxm.yaml"), "w", encoding="utf-8") as file:
            file.write(re.sub(r"copy: {value: [^,]+", "copy: {value: 1e12", text))
        self.assertGreater(planned(env)["step_seconds"], before["step_seconds"])

    def test_a_file_of_a_default_device_is_of_its_kind_and_arch(self):
        env, folder = self.config("other"), self.path("other", "llmc", "devices")
        os.makedirs(folder)
        gpu = os.path.join(harness.SOURCE, "specs", "llama-1b.yaml")
        for spec, name, other, facts in ((gpu, "h100-sxm", "b200", "compute capability 100"),
                                         (gpu, "h100-sxm", "cpu", "is a cpu"), (self.spec, "cpu", "b200",
                                                                                "compute capability 100")):
            file = os.path.join(folder, name + ".yaml")
            with open(file, "w", encoding="utf-8") as out:
                out.write(self.succeed(LLMC, "devices", other).out)
            done = harness.call(LLMC, "plan", spec, env=env)
            self.assertEqual((done.code, done.out), (1, ""), done.err)
            self.assert_facts(done.err, f"{file} {facts if facts.startswith('is') else 'is of ' + facts}",
                              "without target.device", f"planned for {name}")
            os.remove(file)

    def test_a_file_is_the_device_of_its_name(self):
        env, folder = self.config("named"), self.path("named", "llmc", "devices")
        os.makedirs(folder)
        with open(os.path.join(folder, "mine.yaml"), "w", encoding="utf-8") as out:
            out.write(self.succeed(LLMC, "devices", "b200").out)
        listed = [line.split()[0] for line in self.succeed(LLMC, "devices", env=env).out.splitlines()]
        self.assertEqual((listed[-1], listed.count("b200")), ("mine", 1))
        self.assertIn("name: b200", self.succeed(LLMC, "devices", "mine", env=env).out)
        # Other names of a device lead to its file, too.
        for name, of in (("h100-sxm", "h100-80gb"), ("own", "my-gpu")):
            text = re.sub("copy: {value: [^,]+", "copy: {value: 1e12", self.succeed(LLMC, "devices", "h100-sxm").out)
            with open(os.path.join(folder, name + ".yaml"), "w", encoding="utf-8") as out:
                out.write(text.replace("h100-80gb", of))
            self.assertIn("copy: {value: 1e12", self.succeed(LLMC, "devices", of, env=env).out)
            spec = os.path.join(harness.SOURCE, "specs", "llama-1b.yaml")
            device = json.loads(self.succeed(LLMC, "plan", spec, "--json", "--device", of, env=env).out)["device"]
            self.assertEqual((device["name"], device["figures"]["copy"]["value"]), (name, 1e12))
        for words in (("devices", "mien"), ("plan", self.spec, "--device", "mien")):
            self.assertIn("mean mine?", harness.call(LLMC, *words, env=env).err)

    def test_sizes_that_never_fit_are_refused_at_once(self):
        done = harness.call(LLMC, "calibrate", "--sizes", "8192", "-o", self.path("cpu.yaml"))
        self.assertEqual((done.code, done.out), (2, ""), done.err)
        self.assertNotIn("compiling", done.err)

    def test_what_a_trainer_has_measured(self):
        trainer = self.compile(self.spec, "trainer")
        figures, device = self.path("figures.json"), self.path("device.yaml")
        self.assertIn("attention_backward", self.succeed(trainer, "calibrate", *SHORT, "-o", figures).out)
        self.succeed(LLMC, "calibrate", figures, "-o", device)
        self.assertIn("attention_forward_64_fp32", harness.read(device).decode())
        with open(figures, encoding="utf-8") as file:
            text = file.read()
        for spread, noted in (("0.01", False), ("0.5", True)):
            with open(figures, "w", encoding="utf-8") as file:
                file.write(re.sub(r'"spread": [^,\n]+', f'"spread": {spread}', text))
            self.assertEqual(" 50 % " in self.succeed(LLMC, "calibrate", figures, "-o", device).err, noted)
        # Refused, and the file is unchanged.
        was = harness.read(device)
        for name, changed, why in (("empty", "", "`trainer calibrate "),
                                   ("zero", re.sub(r'"launch": [^,\n]+', '"launch": 0',
                                                   text), "above 0"), ("other", text.replace('"cpu"',
                                                                                             '"cuda"'), "--device"),
                                   ("attention", self.attention_only(trainer), "--attention-only")):
            with self.subTest(name):
                bad = self.path(name + ".json")
                with open(bad, "w", encoding="utf-8") as file:
                    file.write(changed)
                done = harness.call(LLMC, "calibrate", bad, "-o", device)
                self.assertEqual((done.code, done.out), (2, ""))
                self.assertIn(why, done.err)
                self.assertEqual(harness.read(device), was)
        self.assertEqual(harness.call(LLMC, "calibrate", self.path("none.json")).code, 2)
        self.assertEqual(harness.call(LLMC, "calibrate", figures, "--seconds", "1").code, 2)
        self.assertEqual(harness.call(LLMC, "calibrate", figures, "--device", "nonsense", "-o", device).code, 2)
        self.assertEqual(harness.call(LLMC, "calibrate", "--device", "cpu").code, 2)
        done = harness.call(LLMC, "calibrate", "-o", self.path("no-such-folder", "cpu.yaml"))
        self.assertEqual((done.code, done.out), (2, ""), "before anything is compiled or measured")
        self.assertIn("mkdir -p", done.err)
        self.assertNotIn("compiling", done.err)
        self.assertEqual(harness.call(LLMC, "calibrate", "--seconds", "nan", "-o", device).code, 2)
        nowhere = harness.environment(XDG_CONFIG_HOME="", HOME="")
        done = harness.call(LLMC, "calibrate", env=nowhere)
        self.assertEqual(done.code, 2)
        self.assertIn("XDG_CONFIG_HOME", done.err)

    def attention_only(self, trainer):
        figures = self.path("attention.json")
        self.succeed(trainer, "calibrate", "--seconds", "0", "--attention-only", "-o", figures)
        return harness.read(figures).decode()

    def test_words_of_a_run_are_refused(self):
        trainer = self.compile(self.spec, "trainer")
        for words in (("--steps", "3", "calibrate"), ("calibrate", "--sizes", "0"), ("calibrate", "--seconds", "-1")):
            self.assertEqual(harness.call(trainer, *words).code, 2, words)
        self.assertFalse(os.path.exists(self.path("runs")))


if __name__ == "__main__":
    harness.main()

"""llmc init: the spec that it writes, and the commands that it prints."""

import json
import os
import re
import shutil

import harness
from harness import LLMC, RunTest


class CliInit(RunTest):

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
        build, run = re.fullmatch(r"wrote .*\n.* FOLDER:\n  (llmc data build .*)\n  (llmc run .*)\n", done.err).groups()
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
        # The parent of a link differs from that of its name.
        os.symlink("specs/deep", self.path("here", "linked"))
        self.succeed(LLMC, "init", "-o", "linked/b.yaml", cwd=self.path("here"))
        self.assertIn("path: ../../data/b/train-*.bin", harness.read(self.path("here", "linked", "b.yaml")).decode())
        done = harness.call(LLMC, "init", "-o", "none/a.yaml", cwd=self.path("here"))
        self.assertEqual((done.code, done.err), (2, done.err))
        self.assert_facts(done.err, "folder 'none'", "`mkdir -p none`")

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

    def test_specs_that_are_called_by_a_number(self):
        for name in ("7b", "13b"):
            self.assertIn(
                f"\nname: run-{name} ",
                self.succeed(LLMC, "init", "-o", self.path(name + ".yaml")).err +
                harness.read(self.path(name + ".yaml")).decode())


if __name__ == "__main__":
    harness.main()

"""`llmc scale`: the large spec has the values of each rule's formula, loads, and says what changed."""

import json
import os

import harness
from harness import LLMC, RunTest

# Four times SMALL's hidden_size, more than four times its intermediate_size and heads of twice its head_dim.
LARGE = """extends: {base}
name: large
model: {{hidden_size: 144, num_hidden_layers: 5, num_attention_heads: 12, num_key_value_heads: 4, head_dim: 20,
  intermediate_size: 250}}
batch: {{tokens: 384}}
init: {{linear: 0.03}}
"""


class Scale(RunTest):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.small = harness.write_small(cls.folder)
        cls.large = os.path.join(cls.folder, "large.yaml")
        with open(cls.large, "w") as file:
            file.write(LARGE.format(base="small.yaml"))

    def scaled(self, rule, *words, out="scaled.yaml", to=None):
        """The resolved values of the new spec, and what was said."""
        path = self.path(out)
        if os.path.exists(path):
            os.remove(path)
        done = self.succeed(LLMC, "scale", self.small, *words, "--to", to or self.large, "--rule", rule, "-o", path)
        keys = json.loads(self.succeed(LLMC, "config", path, "--json").out)
        return {key["key"]: key["value"] for key in keys}, done.err

    def test_mup(self):
        os.makedirs(self.path("of 'a\""), exist_ok=True)
        for words, rate, decay, linear in ((("init.linear=0.02", ), 0.25, 0.4,
                                            0.01), (("optimizer.kind=muon", "init.linear=0.02"), 0.5, 0.2, 0.01),
                                           (("optimizer.kind=muon", "optimizer.muon.scaling=original"), 1, 0.1,
                                            "fan_in"), (("optimizer.kind=lion", "optimizer.rate_scale.matrices=2",
                                                         "optimizer.weight_decay_of.matrices=0.3"), 0.5, 1.2,
                                                        "fan_in")):
            with self.subTest(words=words):
                values, said = self.scaled("mup", *words, out="of 'a\"/scaled.yaml")
                self.assertEqual(values["optimizer.rate_scale.matrices"], rate)
                self.assertAlmostEqual(values["optimizer.weight_decay_of.matrices"], decay, delta=1e-12)
                self.assertEqual(values["init.linear"], linear)
                self.assertEqual(values["model.logits_scaling"], 4)
                self.assertAlmostEqual(values["model.attention_multiplier"], 10**-0.5 * 10 / 20, delta=1e-12)
                # The rest is the small model's, or the large one's shape.
                self.assertEqual((values["optimizer.lr"], values["batch.tokens"], values["model.hidden_size"],
                                  values["optimizer.rate_scale.embedding"]), (0.003, 96, 144, 1))
                self.assert_facts(said, "intermediate_size grows by 5 and hidden_size by 4",
                                  "num_hidden_layers is 3 and 5", "batch.tokens is 96", "not 384")

        values, said = self.scaled("width")
        self.assertEqual((values["optimizer.lr"], values["batch.tokens"], values["init.linear"]),
                         (0.00075, 96, "fan_in"))
        self.assert_facts(said, "num_hidden_layers is 3 and 5", "optimizer.lr: 0.003 -> 0.00075 (0.003 / m)")
        values, said = self.scaled("sqrt_batch")
        self.assertEqual((values["optimizer.lr"], values["batch.tokens"]), (0.006, 384))
        self.assert_facts(said, "hidden_size is 36 and 144", "(0.003 * sqrt(384 / 96))")
        values, said = self.scaled("none", "optimizer.betas=[0.8, 0.9]")
        self.assertEqual((values["optimizer.lr"], values["batch.tokens"], values["optimizer.betas"]),
                         (0.003, 96, [0.8, 0.9]))
        # A softmax scale that follows from head_dim follows from the large model's.
        self.assertAlmostEqual(values["model.attention_multiplier"], 20**-0.5, delta=1e-12)
        self.assertNotIn("warning", said)

    def test_values_that_follow_from_changed_ones(self):
        large = self.path("decays.yaml")
        with open(large, "w") as file:
            file.write("extends: large.yaml\noptimizer: {weight_decay: 0.1, betas: [0.9, 0.95]}\n")
        values, said = self.scaled("none", "optimizer.weight_decay=0.2", "optimizer.betas=[0.8, 0.95]",
                                   "optimizer.betas_of.matrices=[0.9, 0.95]", "optimizer.weight_decay_of.head=0.1",
                                   to=large)
        self.assertEqual([values["optimizer.weight_decay_of." + role] for role in ("matrices", "head", "vectors")],
                         [0.2, 0.1, 0])
        self.assertEqual([values["optimizer.betas_of." + role] for role in ("matrices", "head")],
                         [[0.9, 0.95], [0.8, 0.95]])
        self.assert_facts(said, "optimizer.weight_decay_of.head: stays 0.1\n")
        values, said = self.scaled("none", "optimizer.weight_decay=0.2", to=large)
        self.assertNotIn("_of", said)  # all follow from the new weight_decay
        self.assertEqual(values["optimizer.weight_decay_of.matrices"], 0.2)
        # The large spec's decay is already that of the rule, until weight_decay changes.
        values, said = self.scaled("mup", "optimizer.weight_decay=0.025", to=large)
        self.assertAlmostEqual(values["optimizer.weight_decay_of.matrices"], 0.1, delta=1e-12)
        self.assert_facts(said, "optimizer.weight_decay_of.matrices: stays 0.1 (0.025 / 0.25")
        # Tokens that neither spec gives.
        for name, text in (("open.yaml", harness.SMALL.replace(", tokens: 96", "")),
                           ("long-open.yaml", "extends: open.yaml\nname: open\nbatch: {sequence_length: 36}\n"
                            "memory: {loss_chunk: 12}\n")):
            with open(self.path(name), "w") as file:
                file.write(text)
        done = self.succeed(LLMC, "scale", self.path("open.yaml"), "--to", self.path("long-open.yaml"), "--rule", "mup")
        self.assertNotIn("tokens:", done.out)
        self.assert_facts(done.err, "batch.tokens is 1048536, and 1048560 in the small spec: ")
        # Lion's betas, which are no default of AdamW.
        lion = self.path("lion.yaml")
        with open(lion, "w") as file:
            file.write("extends: large.yaml\noptimizer: {kind: lion}\n")
        values, said = self.scaled("none", "optimizer.betas=[0.95, 0.98]", to=lion)
        self.assertEqual((values["optimizer.kind"], values["optimizer.betas"]), ("adamw", [0.95, 0.98]))

    def test_text_and_refusals(self):
        text = self.succeed(LLMC, "scale", self.small, "--to", self.large, "--rule", "mup", cwd=self.folder).out
        self.assert_facts(text, "# Written by llmc scale", "arXiv:2203.03466",
                          "extends: large.yaml\nmodel:\n  attention",
                          "optimizer:\n  rate_scale:\n    matrices: 0.25  # 1 * 0.25, 1 / m\n  weight_decay_of:\n")
        for code, words, facts in ((2, ("--rule", "mu"), ("mu not in", "mup")), (2, (), ("--rule is required", )),
                                   (2, ("--rule", "mup", "-o", self.large), ("large.yaml exists", "-o")),
                                   (1, ("--rule", "mup", "optimizer.lrr=1"), ("E0201", "lrr"))):
            done = harness.call(LLMC, "scale", self.small, "--to", self.large, *words)
            self.assertEqual(done.code, code, done.err)
            self.assert_facts(done.err, *facts)
        long = self.path("long.yaml")
        with open(long, "w") as file:
            file.write("extends: large.yaml\nbatch: {sequence_length: 64, micro_batch: 1, tokens: 384}\n")
        done = harness.call(LLMC, "scale", self.small, "--to", long, "--rule", "mup", "-o", self.path("none.yaml"))
        self.assertEqual(done.code, 1, done.err)
        self.assert_facts(done.err, "tokens 96", "nothing was written", "SPEC batch.tokens=512Ki --to")
        self.succeed(LLMC, "scale", self.small, "batch.tokens=192", "--to", long, "--rule", "mup")
        # The small spec's optimizer takes the place of the large one's, with all keys.
        other = self.path("other.yaml")
        with open(other, "w") as file:
            file.write("extends: large.yaml\nprecision: {compute: bf16, optimizer_state: int8}\n"
                       "optimizer: {kind: adamw, eps: 1.0e-6}\n")
        values, said = self.scaled("width", "optimizer.kind=lion", to=other)
        self.assertEqual((values["optimizer.kind"], values["precision.optimizer_state"]), ("lion", "fp32"))
        values, said = self.scaled("width", "optimizer.kind=muon", to=other)
        self.assertEqual(values["optimizer.kind"], "muon")
        self.assert_facts(said, "optimizer.kind is muon: the rule is Adam's")
        phased = self.path("phased.yaml")
        with open(phased, "w") as file:
            file.write("extends: large.yaml\nphases: [{until: 50%}, {until: 100%}]\n")
        done = harness.call(LLMC, "scale", self.small, "--to", phased, "--rule", "mup")
        self.assertEqual(done.code, 2, done.err)
        self.assert_facts(done.err, "--to takes a spec without phases", "has 2")


if __name__ == "__main__":
    harness.main()

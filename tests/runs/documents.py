"""Masks of documents: none has the bits of a run without, every number of ranks trains the same, and the separator is
found where the data record it."""

import json
import os
import shutil
import struct

import harness
import ranks

DATASET = os.path.abspath(os.environ.get("LLMC_DATASET", "dataset"))
MASKED = ("data.documents.mask=true", "data.documents.separator=5")

# Fewer micro-batches than on some number of ranks, and an audit whose passes have the same masks.
UNEVEN = ("precision.compute=bf16", *ranks.UNEVEN[:-1], "audit.compute=forward")


class Documents(ranks.RanksTest):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for number in range(2):  # an eighth of the tokens are separators
            harness.write_shard(os.path.join(cls.folder, f"train-{number}.bin"), 5 * 24 + 1, number, vocabulary=8)

    def losses(self, run):
        return [line["loss"] for line in harness.json_lines(os.path.join(self.path(run), "metrics.jsonl"))]

    def test_one_document_has_the_bits_of_none(self):
        """No token is the separator, so a sample is one document."""
        for compute in ("fp32", "bf16"):
            words = (f"precision.compute={compute}", "model.vocab_size=98", "model.sliding_window=9")
            for name, more in (("plain", ()), ("one", ("data.documents.mask=true", "data.documents.separator=97"))):
                trainer = self.compile(self.spec, f"{name}-{compute}", *words, *more)
                self.succeed(trainer, "--run", self.path(f"{name}-{compute}-run"), "--steps", 4)
            for file in ("model.safetensors", "optimizer.safetensors"):
                ours, theirs = (os.path.join(self.checkpoint(f"{name}-{compute}-run", 4), file)
                                for name in ("one", "plain"))
                self.assertEqual(harness.read(ours), harness.read(theirs), f"{compute}, {file}")
            self.assertEqual(self.losses(f"one-{compute}-run"), self.losses(f"plain-{compute}-run"))

    def test_any_number_of_ranks(self):
        """With targets masked, which every rank counts. The audit in fp32 has the same masks."""
        trainer = self.compile(self.spec, "ranks", *MASKED, "data.documents.mask_first=true", *UNEVEN)
        for count in (1, 2, 3):
            done = self.train(count, trainer, f"ranks-{count}", "--steps", 4, "audit.every=1", "audit.bound=5e-3")
            self.assertNotIn("audit.bound", done.err)
            for ours, theirs in zip(self.losses(f"ranks-{count}"), self.losses("ranks-1")):
                self.assertLess(abs(ours / theirs - 1), ranks.TRAINED["bf16"], f"{count} ranks")
            self.assertLess(abs(self.losses(f"ranks-{count}")[0] / self.losses("ranks-1")[0] - 1), ranks.SUMS)
        # The mask matters, and a resume has it.
        plain = self.compile(self.spec, "plain", *UNEVEN)
        self.succeed(plain, "--run", self.path("plain-run"), "--steps", 4)
        self.assertGreater(abs(self.losses("plain-run")[0] / self.losses("ranks-1")[0] - 1), 1e-4)
        done = harness.call(plain, "--run", self.path("ranks-1"))
        self.assertEqual(done.code, 6, done.out + done.err)
        self.assert_facts(done.err, "data.documents.mask", "--allow")
        self.succeed(
            plain, "--run", self.path("ranks-1"),
            *(word for key in ("mask", "mask_first", "separator") for word in ("--allow", "data.documents." + key)))

    def test_batches_count_targets_with_a_loss(self):
        """As many as tokens of a sample that are no separator: after one no target has a loss."""
        trainer = self.compile(self.spec, "batches", *MASKED, "data.documents.mask_first=true")
        words = ("--run", self.path("batches-run"), "--batches", "1:2", "--json")
        masked = 0
        for line in self.succeed(trainer, *words).out.splitlines():
            for sample in json.loads(line)["samples"]:
                data = harness.read(os.path.join(self.folder, os.path.basename(sample["file"])))
                tokens = struct.unpack_from("<24H", data, 1024 + 2 * sample["token"])
                self.assertEqual(sample["targets"], sum(token != 5 for token in tokens), sample)
                masked += 24 - sample["targets"]
        self.assertGreater(masked, 4)
        text = self.succeed(trainer, *words[:-1]).out
        self.assertRegex(text, r"from token \d+, \d+ of its targets")

    def test_the_separator_is_the_recorded_one(self):
        folder = self.path("data")
        shutil.copytree(DATASET, folder)
        with open(os.path.join(folder, "dataset.json")) as file:
            separator = json.load(file)["separator_id"]
        spec = self.path("data", "small.yaml")
        with open(spec, "w") as file:
            file.write(harness.SMALL.replace("vocab_size: 97", "vocab_size: 4096"))
        trainer = self.compile(spec, "recorded", "data.documents.mask=true")
        words = ("--steps", 3, "evaluation.sequences=8")
        runs = {"auto": (), "number": (f"data.documents.separator={separator}", )}
        for name, more in runs.items():
            self.succeed(trainer, "--run", self.path(name), *words, *more)
        self.assertEqual(self.losses("auto"), self.losses("number"))
        saved = self.checkpoint("auto", 3)
        evaluated = self.succeed(trainer, "evaluate", "--checkpoint", saved, "--sequences", 8, "--json")
        self.assertAlmostEqual(
            json.loads(evaluated.out)["loss"],
            harness.json_lines(self.path("auto", "metrics.jsonl"))[-1]["val_loss"], 5)
        self.succeed(trainer, "sample", "--checkpoint", saved, "--prompt", "17 4", "--tokens", 4)
        tokenizer = f"data.tokenizer={os.path.join(folder, 'tokenizer.model')}"
        # Another separator than the tokenizer's, and than another source's.
        other = self.path("other")
        shutil.copytree(folder, other)
        with open(os.path.join(folder, "dataset.json")) as file:
            record = json.load(file)
        with open(os.path.join(other, "dataset.json"), "w") as file:
            json.dump({**record, "separator_id": separator + 4}, file)
        moved = f"data.train.path={other}/train-*.bin"
        for more, facts in (((moved, tokenizer), (f"end with token {separator + 4}", f"is {separator}.")),
                            (("data.train.path=", f"data.train.a={{path: {folder}/train-*.bin, weight: 1}}",
                              f"data.train.b={{path: {other}/train-*.bin, weight: 1}}"),
                             ("data.train.a", f"token {separator}", "data.train.b", f"{separator + 4}"))):
            done = harness.call(trainer, "--run", self.path("none"), "--steps", 1, *more)
            self.assertEqual(done.code, 5, done.out + done.err)
            self.assert_facts(done.err, *facts, "data.documents.separator")
        os.remove(os.path.join(folder, "dataset.json"))
        again = self.succeed(trainer, "evaluate", "--checkpoint", saved, "--sequences", 8, "--json")
        self.assertEqual(again.out, evaluated.out, "the checkpoint has the separator")
        done = harness.call(trainer, "--run", self.path("none"), *words)
        self.assertEqual(done.code, 5, done.out + done.err)
        self.assert_facts(done.err, "data.documents.mask", "dataset.json", "data.documents.separator: ID")
        self.succeed(trainer, "--run", self.path("tokenizer"), *words, tokenizer, "sampling.every=0")
        self.assertEqual(self.losses("tokenizer"), self.losses("auto"))


if __name__ == "__main__":
    harness.main()

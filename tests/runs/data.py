"""llmc data: a corpus of real text becomes shards and a tokenizer. Makes the data set that other tests train on."""

import glob
import gzip
import json
import os
import random
import shutil
import signal
import subprocess
import sysconfig
import time

import harness
from harness import LLMC, RunTest

DATASET = os.environ.get("LLMC_DATASET", "/tmp/llmc-dataset")


class Data(RunTest):

    def test_build_and_info(self):
        """The quick start's vocabulary on part of Python's standard library; a second build of the same text gives the
        same bytes."""
        library = sysconfig.get_paths()["stdlib"]
        parts = [
            os.path.join(library, name) for name in ("asyncio", "email", "json", "unittest", "argparse.py", "typing.py")
        ]
        shutil.rmtree(DATASET, ignore_errors=True)
        folders = [DATASET, self.path("again")]
        reports = []
        for folder in folders:
            done = self.succeed(LLMC, "data", "build", "--from", *parts, "--glob", "*.py", "--vocab-size", 4096, "-o",
                                folder, "--json")
            reports.append(json.loads(done.out))
        self.assertEqual(reports[0], reports[1])
        self.assert_same_files(*folders, "built twice")
        warned = harness.call(LLMC, "data", "info", os.path.join(DATASET, "tokenizer.model"))
        self.assertRegex(warned.err, "'format: nanogpt'.*'format: nanogpt32'")
        self.assertEqual(sorted(os.listdir(DATASET)),
                         ["dataset.json", "tokenizer.model", "train-00000.bin", "val-00000.bin"])

        info = json.loads(
            self.succeed(LLMC, "data", "info", os.path.join(DATASET, "train-*.bin"), "--sequence-length", 256,
                         "--json").out)
        size = os.path.getsize(os.path.join(DATASET, "train-00000.bin"))
        text = json.dumps(info)
        self.assertIn(str((size - 1024) // 2), text)
        self.assertIn(str(((size - 1024) // 2 - 1) // 256), text)
        self.assertIn("llm.c uint16", text)
        people = self.succeed(LLMC, "data", "info", os.path.join(DATASET, "train-00000.bin")).out
        self.assertIn("tokens", people)

    def test_look_and_verify(self):
        """A sample with the borders of its tokens; damage of a shard, by name, with exit code 5. A run on shards that
        dataset.json describes reads them first when it trains."""
        os.makedirs(self.path("seen"))
        for number in range(8):
            with open(self.path("seen", f"{number}.txt"), "w") as file:
                file.write(f"zeile {number} für {number * 7} €\n" * 100)
        out = self.path("seen-set")
        self.succeed(LLMC, "data", "build", "--from", self.path("seen"), "--vocab-size", 330, "--shard-tokens", 500,
                     "-o", out)
        with open(os.path.join(out, "dataset.json")) as file:
            dataset = json.load(file)
        seen = self.succeed(LLMC, "data", "look", out, "--sequence-length", 30, "--sample", 1).out
        self.assertRegex(seen.splitlines()[0], r"train-00000\.bin: sample 1 of [\d,]+, tokens 30 to 60$")
        self.assertEqual(seen.count("│"), 30)
        self.assertIn("⏎", seen)
        tokens = json.loads(
            self.succeed(LLMC, "data", "look", out, "--validation", "--sequence-length", 30, "--json").out)["tokens"]
        self.assertEqual(len(tokens), 31)
        self.assertIn("zeile", "".join(token["text"] for token in tokens))
        for code, words, fact in ((5, ["--sample", "100000"], "--sample 0 to"), (2, ["--sample", "-1"], "--sample"),
                                  (5, ["--tokenizer",
                                       self.path("seen")], "no tokenizer.model"), (2, ["--sequence-length",
                                                                                       "0"], "--sequence-length")):
            done = harness.call(LLMC, "data", "look", out, *words)
            self.assertEqual((done.code, done.out), (code, ""), words)
            self.assertIn(fact, done.err)
        info = json.loads(self.succeed(LLMC, "data", "info", out, "--json").out)
        for side in ("train", "validation"):
            self.assertEqual(info["sides"][side]["documents"], dataset[side]["documents"])
            self.assertEqual(sum(one["documents"] for one in info["sides"][side]["lengths"]),
                             dataset[side]["documents"])

        spec = harness.write_small(
            self.path("seen-small"),
            harness.SMALL.replace("train-*.bin",
                                  "../seen-set/train-*.bin").replace("val-*.bin", "../seen-set/val-*.bin").replace(
                                      "vocab_size: 97", f"vocab_size: {dataset['vocab_size']}"))
        trainer = self.compile(spec, "seen-trainer")
        self.succeed(trainer, "--run", self.path("seen-run"), "--steps", 1)
        copy = shutil.copytree(out, self.path("copied-set"), ignore=shutil.ignore_patterns("dataset.json"))
        self.succeed(trainer, "--run", self.path("copied-run"), "--steps", 1,
                     "data.train.path=" + os.path.join(copy, "train-*.bin"))
        states = [
            harness.read(self.path(run, "checkpoints", "step-00000001", "state.json"))
            for run in ("seen-run", "copied-run")
        ]
        self.assertEqual(*states, "the fingerprint is that of the content")

        complete = self.succeed(LLMC, "data", "verify", out, DATASET if os.path.exists(DATASET) else out).out
        self.assertEqual(complete.count(": complete ("), 2)
        shard = os.path.join(out, dataset["train"]["shards"][1]["file"])
        with open(shard, "r+b") as file:
            file.seek(1030)
            byte = file.read(1)
            file.seek(1030)
            file.write(bytes([byte[0] ^ 1]))
        done = harness.call(LLMC, "data", "verify", out)
        self.assertEqual(done.code, 5)
        self.assertRegex(done.out, rf"damaged\n  {os.path.basename(shard)}: has the checksum \w+ instead of \w+\n$")
        listed = json.loads(harness.call(LLMC, "data", "verify", out, "--json").out)
        self.assertEqual([one["file"] for one in listed[0]["damage"]], [os.path.basename(shard)])
        done = harness.call(LLMC, "data", "verify", self.path("seen"))
        self.assertEqual((done.code, done.out), (5, ""))
        self.assertIn("has no dataset.json", done.err)

    def test_another_vocabulary_is_said(self):
        """A warning of check and compile next to the data set; both continue."""
        text = " ".join(f"import {name}\n" for name in ("json", "random", "decimal", "fractions") * 50)
        os.makedirs(self.path("text"))
        for number in range(3):
            with open(self.path("text", f"{number}.py"), "w") as file:
                file.write(text + str(number))
        self.succeed(LLMC, "data", "build", "--from", self.path("text"), "--vocab-size", 320, "-o", self.path("set"))
        with open(self.path("set", "dataset.json")) as file:
            tokens = json.load(file)["vocab_size"]
        spec = harness.write_small(self.path("small"),
                                   harness.SMALL.replace("path: train-*.bin", "path: ../set/train-*.bin"))
        note = f"note: model.vocab_size {tokens + 5} is above the {tokens} tokens of '{self.path('set', 'tokenizer.model')}'"
        out = self.path("compiled")
        os.makedirs(out)
        for command in (["check"], ["compile", "-o", out]):
            self.assertNotIn("vocab_size",
                             self.succeed(LLMC, *command, spec, f"model.vocab_size={tokens}", cwd=out).err)
            self.assertIn(note, self.succeed(LLMC, *command, spec, f"model.vocab_size={tokens + 5}", cwd=out).err)
        started = self.succeed(os.path.join(out, "trainer"), "--run", self.path("run"), "--steps", 1).out
        self.assertIn(note.replace("note: ", "note    "), started)

    def test_an_odd_share_of_held_out_tokens_is_said(self):
        """Documents are not split, so few documents of different size may give a share far from the requested one."""
        os.makedirs(self.path("uneven"))
        for number, count in enumerate((1, 400)):
            with open(self.path("uneven", f"{number}.py"), "w") as file:
                file.write("import json, random, decimal, fractions\n" * count)
        words = (LLMC, "data", "build", "--from", self.path("uneven"), "--vocab-size", 320)
        self.assertRegex(
            self.succeed(*words, "-o", self.path("one")).err, r"note: (0\.\d|99\.\d) % .* held out.* 5\.0 %")
        self.assertNotIn("held out", self.succeed(*words, "--validation", 0, "-o", self.path("none")).err)

    def test_more_data_of_a_tokenizer(self):
        """A second data set with the first one's tokenizer: a run whose model has that vocabulary trains and evaluates
        on it."""
        for folder, word in (("alpha", "alpha"), ("omega", "omega")):
            os.makedirs(self.path(folder))
            for number in range(8):
                with open(self.path(folder, f"{number}.txt"), "w") as file:
                    file.write(f"{word} {number}, " * 300)
        self.succeed(LLMC, "data", "build", "--from", self.path("alpha"), "--vocab-size", 320, "-o", self.path("first"))
        done = self.succeed(LLMC, "data", "build", "--from", self.path("omega"), "--tokenizer", self.path("first"),
                            "--validation", 0, "-o", self.path("second"))
        with open(self.path("first", "dataset.json")) as file:
            tokens = json.load(file)["vocab_size"]
        self.assertIn(f"vocabulary {tokens}\n", done.out)
        self.assertNotIn("note", done.err)
        self.assertEqual(harness.read(self.path("first", "tokenizer.model")),
                         harness.read(self.path("second", "tokenizer.model")))
        text = harness.SMALL.replace("{path: train-*.bin}", "{path: ../first/train-*.bin}").replace(
            "{path: val-*.bin}",
            "{path: ../second/train-*.bin}").replace("vocab_size: 97", f"vocab_size: {tokens}").replace(
                "  seed: 5", "  tokenizer: ../second/tokenizer.model\n  seed: 5")
        spec = harness.write_small(self.path("more-small"), text)
        self.assertEqual(self.succeed(LLMC, "check", spec).err, "")
        trainer = self.compile(spec, "more-compiled")
        started = self.succeed(trainer, "--run", self.path("more-run"), "--steps", 3).out
        self.assertNotIn("note", started)
        evaluated = [line for line in harness.json_lines(self.path("more-run", "metrics.jsonl")) if "val_loss" in line]
        self.assertTrue(evaluated)
        # Also on the second set only, in a separate run.
        self.succeed(trainer, "--run", self.path("second-run"), "--steps", 1,
                     "data.train.path=" + self.path("second", "train-*.bin"))

    def test_one_short_document_and_links_are_said(self):
        for folder in ("many", "elsewhere"):
            os.makedirs(self.path(folder))
        with open(self.path("many", "a.txt"), "w") as file:
            file.writelines(f"word{number * number} and {number}\n" for number in range(500))
        os.symlink(self.path("elsewhere"), self.path("many", "link"))
        done = self.succeed(LLMC, "data", "build", "--from", self.path("many"), "--vocab-size", "330", "-o",
                            self.path("words"))
        self.assertIn("there is one document, so its end is the validation set\n", done.err)
        self.assertIn(
            f"a linked directory was not entered, as links may be loops or copies ('{self.path('many', 'link')}')",
            done.err)
        with open(self.path("elsewhere", "b.txt"), "w") as file:
            file.write("ab")
        done = self.succeed(LLMC, "data", "build", "--from", self.path("many", "link"), "--tokenizer",
                            self.path("words"), "-o", self.path("two"))
        self.assertIn("its end is the validation set: 50.0 % of the tokens, not 5.0 %\n", done.err)
        self.assertNotIn("linked", done.err)

    def test_what_was_passed_over_is_said(self):
        os.makedirs(self.path("mixed"))
        for name in ("a.txt", "b.txt", "c.parquet", "d.gz"):
            with open(self.path("mixed", name), "w") as file:
                file.write("some text of " + name * 20)
        said = "2 files excluded by their names (.gz 1, .parquet 1)"
        build = [LLMC, "data", "build", "--vocab-size", 320, "--from", self.path("mixed")]
        self.assert_facts(self.succeed(*build, "-o", self.path("of-mixed")).out, "  " + said + "; ", "--glob\n")
        self.assertIn("from 2 files, 0 skipped; " + said, self.succeed(LLMC, "data", "info", self.path("of-mixed")).out)
        with open(self.path("of-mixed", "dataset.json")) as file:
            record = file.read()
        with open(self.path("of-mixed", "dataset.json"), "w") as file:
            file.write(record.replace('".gz"', '".\\u001b[31mgz"'))
        told = self.succeed(LLMC, "data", "info", self.path("of-mixed")).out
        self.assert_facts(told, "\\x1b[31mgz 1")
        self.assertNotIn("\x1b", told)
        for name in ("a.txt", "b.txt"):
            os.remove(self.path("mixed", name))
        done = harness.call(*build, "-o", self.path("of-nothing"))
        self.assertEqual((done.code, done.out), (5, ""))
        self.assertIn(said, done.err)

    def test_compressed_text_and_standard_input(self):
        """The same documents from plain files, from .gz, from .zst and from a pipe; duplicates; damage by name."""
        texts = [f"document {number}: " + f"zeile {number * 7} €\n" * (number % 5 + 20) for number in range(60)]
        for folder in ("plain", "packed", "cut"):
            os.makedirs(self.path(folder))
        lines = "".join(json.dumps({"text": text}) + "\n" for text in texts)
        with open(self.path("plain", "a.jsonl"), "w") as file:
            file.write(lines)
        with gzip.open(self.path("packed", "a.jsonl.gz"), "wt") as file:
            file.write(lines)
        words = (LLMC, "data", "build", "--vocab-size", 320)
        self.succeed(*words, "--from", self.path("plain"), "-o", self.path("of-plain"))
        self.succeed(*words, "--from", self.path("packed"), "-o", self.path("of-gzip"))
        self.assert_same_files(self.path("of-plain"), self.path("of-gzip"), "plain and compressed")
        piped = subprocess.run([str(word) for word in (*words, "--from", "-", "-o", self.path("of-pipe"))],
                               input=(lines + lines).encode(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               timeout=harness.HANGS)
        self.assertEqual(piped.returncode, 0, piped.stderr)
        self.assertIn(b": 120 documents from 1 file (0 skipped)", piped.stdout)
        piped = subprocess.run(
            [str(word) for word in (*words, "--from", "-", "--deduplicate", "-o", self.path("of-pipe"), "--force")],
            input=(lines + lines).encode(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=harness.HANGS)
        self.assertIn(b"\n  60 duplicate documents left out\n", piped.stdout)
        for name in ("tokenizer.model", "train-00000.bin", "val-00000.bin"):
            self.assertEqual(harness.read(self.path("of-plain", name)), harness.read(self.path("of-pipe", name)), name)
        self.assertEqual(sorted(os.listdir(self.path("of-pipe"))), sorted(os.listdir(self.path("of-plain"))))
        whole = harness.read(self.path("packed", "a.jsonl.gz"))
        for name, content, fact in (("cut.jsonl.gz", whole[:-5],
                                     "cut short"), ("flip.jsonl.gz", whole[:200] + b"xx" + whole[202:], "is damaged"),
                                    ("text.txt.zst", b"no such format", "is not Zstandard data")):
            with open(self.path("cut", name), "wb") as file:
                file.write(content)
            done = harness.call(*words, "--from", self.path("plain"), self.path("cut", name), "-o", self.path("of-cut"))
            self.assertEqual((done.code, done.out), (5, ""), name)
            self.assert_facts(done.err, f"'{self.path('cut', name)}'", fact)
            self.assertFalse(os.path.exists(self.path("of-cut")))

    def test_killed_builds(self):
        """Builds of compressed text that are killed at random moments leave no data set, and the next one writes the
        bytes of a build that nothing interrupted."""
        os.makedirs(self.path("long"))
        for number in range(12):
            with gzip.open(self.path("long", f"{number}.txt.gz"), "wt") as file:
                file.writelines(f"zeile {number} von {line * line} und {line % 97}\n" for line in range(4000))
        words = [
            str(word) for word in (LLMC, "data", "build", "--from", self.path("long"), "--vocab-size", 330,
                                   "--shard-tokens", 20000, "--deduplicate", "-o")
        ]
        begin = time.monotonic()
        self.succeed(*words, self.path("whole"))
        took, generator = time.monotonic() - begin, random.Random(7)
        out = self.path("killed", "set")
        for _ in range(6):
            process = self.start(*words, out, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(generator.uniform(0, took * 0.9))
            process.kill()
            process.wait(timeout=harness.HANGS)
            if os.path.exists(out):  # it was faster than the first
                shutil.rmtree(out)
        self.succeed(*words, out)
        self.assert_same_files(self.path("whole"), out, "after kills")
        self.assertEqual(os.listdir(self.path("killed")), ["set"], "nothing of the killed builds is left")

    def test_a_killed_build_continues(self):
        """Builds that are killed after a shard is finished: each keeps what the one before has finished, and the last
        writes the bytes of a build that nothing interrupted. Another text or option begins from the start."""
        os.makedirs(self.path("pages"))
        generator = random.Random(3)
        with open(self.path("pages", "a.jsonl"), "w") as file:
            for number in range(9000):
                text = " ".join(f"word{generator.randrange(5000)}" for _ in range(400))
                file.write(json.dumps({"text": f"page {number} {text}"}) + "\n")
        tokenizer = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tokenizers", "gpt2.json")

        def words(*more):
            return [
                str(word) for word in (LLMC, "data", "build", "--from", self.path("pages"), "--tokenizer", tokenizer,
                                       "--shard-tokens", 700000, *more, "-o")
            ]

        self.succeed(*words(), self.path("uninterrupted"))
        out = self.path("continued", "set")

        def partial():
            return glob.glob(out + ".partial-*/build.json")

        def killed(signal_number, more=()):
            """Starts a build and ends it once it has finished another shard. Returns the finished shards' times."""
            before = len(json.loads(harness.read(partial()[0]))["train"]["shards"]) if partial() else 0
            process = self.start(*words(*more), out, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            while process.poll() is None:
                found = partial()
                try:
                    if found and len(json.loads(harness.read(found[0]))["train"]["shards"]) > before:
                        break
                except OSError:  # the folder has just been renamed
                    pass
                time.sleep(0.002)
            time.sleep(generator.uniform(0, 0.05))
            process.send_signal(signal_number)
            process.wait(timeout=harness.HANGS)
            self.assertEqual(len(partial()), 1, "the build ended before it was killed")
            record = json.loads(harness.read(partial()[0]))
            shards = record["train"]["shards"][:-1] if record["train"]["open"] else record["train"]["shards"]
            return {
                shard["file"]: os.stat(os.path.join(os.path.dirname(partial()[0]), shard["file"])).st_mtime_ns
                for shard in shards
            }

        first = killed(signal.SIGKILL)
        second = killed(signal.SIGTERM)
        self.assertTrue(first and len(second) > len(first), (first, second))
        self.assertLessEqual(first.items(), second.items())
        done = self.succeed(*words(), out)
        self.assertRegex(done.out, rf"(?m)^  \d+ shards? of a build that was killed kept$")
        self.assertLessEqual(second.items(), {name: os.stat(os.path.join(out, name)).st_mtime_ns
                                              for name in second}.items())
        self.assert_same_files(self.path("uninterrupted"), out, "after kills")
        self.assertEqual(os.listdir(self.path("continued")), ["set"])
        shutil.rmtree(out)
        killed(signal.SIGKILL, ("--seed", "5"))
        self.assertNotIn("kept", self.succeed(*words(), out).out)
        self.assert_same_files(self.path("uninterrupted"), out, "after a build with another seed")

    def test_words_of_the_output(self):
        """A document counts once even if both sides have a part of it; numbers may have suffixes as in a spec."""
        os.makedirs(self.path("single"))
        with open(self.path("single", "a.txt"), "w") as file:
            file.write("word after word, \n" * 400)
        done = self.succeed(LLMC, "data", "build", "--from", self.path("single"), "--vocab-size", "1K",
                            "--shard-tokens", "1M", "-o", self.path("of-single"))
        self.assertIn(": 1 document from 1 file (0 skipped)", done.out)
        self.assertRegex(done.err, "note: .* one document")
        self.assertNotIn("held out", done.err)
        for words, message in ((["build", "--from", "x", "--vocab-size", "32k", "-o",
                                 "x"], 'number "32k"'), (["bulid", "--from",
                                                          "x"], "data build --help"), ([], "data build --help")):
            done = harness.call(LLMC, "data", *words)
            self.assertEqual((done.code, done.out), (2, ""))
            self.assertIn(message, done.err)

    def test_refusals(self):
        """Errors in data are reported on one line, with exit code 5 (or 2 for the command line)."""
        bad = self.path("bad.bin")
        with open(bad, "wb") as file:
            file.write(b"\0" * 2000)
        cases = [
            (5, ["data", "info", self.path("nothing-*.bin")]),
            (5, ["data", "info", bad]),
            (5, ["data", "build", "--from",
                 self.path("nothing"), "--vocab-size", 512, "-o",
                 self.path("out")]),
            (2, ["data", "build", "--vocab-size", 512, "-o",
                 self.path("out")]),
            (2, ["data", "build", "--from", bad, "-o", self.path("out")]),
            (2, ["data", "build", "--from", bad, "--vocab-size", 512, "--tokenizer", bad, "-o",
                 self.path("out")]),
            (5, ["data", "build", "--from", bad, "--tokenizer", bad, "-o",
                 self.path("out")]),
            (2, ["data", "info", bad, "--format", "parquet"]),
            (2, ["data", "build", "--from", bad, "--vocab-size", 512, "--text-field", "", "-o",
                 self.path("out")]),
        ]
        for code, words in cases:
            done = harness.call(LLMC, *words)
            self.assertEqual(done.code, code, f"{words}: {done.out}{done.err}")
            self.assertEqual(done.out, "")
            self.assertTrue(done.err.strip())
            self.assertFalse(os.path.exists(self.path("out")))


if __name__ == "__main__":
    harness.main()

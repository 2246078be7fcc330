"""llmc plan and llmc sizes: times, devices, and plans that do not fit."""

import json
import os
import re

import harness
from harness import LLMC, SOURCE, RunTest


class CliPlan(RunTest):

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
        text = self.succeed(LLMC, "sizes", "--device", "l40s", "--tokens", "1G", "--price", "2").out
        for row in fitting:  # with cents below a hundred
            self.assertIn(f" {row['cost']:.{2 if row['cost'] < 100 else 0}f}  micro_batch ", text)
        self.assertLess(fitting[0]["cost"], 100)
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
            self.assertNotIn("auto", re.sub(r"(attention|format|matmul|separator): auto", "", file.read()))
        again = json.loads(self.succeed(LLMC, "plan", pinned, "--json").out)
        self.assertEqual((again["fingerprint"], again["choice"]), (plan["fingerprint"], plan["choice"]))
        # With tokens and the steps that follow from them.
        with open(pinned, "w", encoding="utf-8") as file:
            file.write(self.succeed(LLMC, "plan", "specs/tiny.yaml", "schedule.tokens=2x", "--pin", cwd=SOURCE).out)
        self.succeed(LLMC, "check", pinned)
        self.assertIn("E0349", harness.call(LLMC, "check", pinned, "batch.tokens=24").err)
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
        self.assertRegex(text, rf"that fits: micro_batch {plan['limits']['micro_batch']['as_chosen']}\b")

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
             "'target.arch=[89]' target.device=rtx-4090 memory.budget=20992MiB parallel.world_size=8"),
            ("llama-1b", "h200", "target.device=h200 memory.budget=136GiB parallel.world_size=8"),
            ("quickstart", "b200",
             "target.kind=cuda 'target.arch=[100a]' target.device=b200 memory.budget=174GiB parallel.world_size=8")):
            spec = f"specs/{spec}.yaml"
            more = ["batch.tokens=1Mi", "batch.micro_batch=auto", "memory.loss_chunk=auto"]
            done = self.succeed(LLMC, "plan", spec, *more, "--device", device, "--world", "8", "--json", cwd=SOURCE)
            self.assertTrue(done.err.startswith(f"note: planned for {device} with {words}. "), done.err)
            self.assertEqual(done.err.count("\n"), 1)
            self.assertEqual(json.loads(done.out)["device"]["name"], device)
            kept = self.succeed("sh", "-c", f"{LLMC} plan {spec} {' '.join(more)} {words} --json", cwd=SOURCE)
            self.assertEqual((kept.out, kept.err), (done.out, ""))
        # Products whose scales the device does not take get one scale a tensor; others stay.
        spec = self.path("fp8.yaml")
        with open(spec, "w") as file:
            file.write(
                harness.read(os.path.join(SOURCE, "specs", "llama-1b.yaml")).decode().replace(
                    "precision:\n", "precision:\n  matmul: fp8\n  fp8: {first_layers: 1}\n"))
        for device, matmul in (("b200", "fp8_tensor"), ("h200", "fp8"), ("a100-80gb", "fp8")):
            done = harness.call(LLMC, "plan", spec, "--device", device, "--json")
            self.assertEqual(json.loads(done.out)["matmul"], matmul, device + done.err)
            self.assertEqual("precision.matmul=fp8_tensor" in done.err, matmul == "fp8_tensor")
        # One scale a tensor needs sums over multiples of 16 tokens.
        odd = ("batch.sequence_length=2040", "batch.micro_batch=1", "batch.tokens=2040", "memory.loss_chunk=2040")
        done = self.succeed(LLMC, "plan", spec, *odd, "--device", "b200", "--json")
        self.assertEqual(json.loads(done.out)["matmul"], "auto", done.err)
        # Typed values are kept.
        done = self.succeed(LLMC, "plan", "specs/llama-1b.yaml", "memory.budget=60GiB", "--device", "h200", "--json",
                            cwd=SOURCE)
        self.assertEqual(json.loads(done.out)["memory"]["budget_bytes"], 60 << 30)
        done = harness.call(LLMC, "plan", "specs/llama-1b.yaml", "target.device=rtx-4090", cwd=SOURCE)
        self.assertIn(" --device rtx-4090`", done.err)
        for words, said in (([], "rtx-409. Did you mean rtx-4090?"), (["specs/tiny.yaml"], "second spec")):
            done = harness.call(LLMC, "plan", "specs/tiny.yaml", *words, "--device", "rtx-409", cwd=SOURCE)
            self.assertEqual((done.code, done.out), (2, ""))
            self.assertIn(said, done.err)
        self.assertRegex(self.succeed(LLMC, "devices").out, r"(?m)^h100-sxm +90a ")

    def test_mxfp8_is_planned_and_not_compiled(self):
        """Its products have the rate of fp8's; sources are refused before anything is written."""
        words = (os.path.join(SOURCE, "specs", "llama-1b.yaml"), "batch.tokens=32768", "target.kind=cuda",
                 "target.arch=[100a]", "target.device=b200", "memory.budget=b200", "precision.matmul=mxfp8")
        done = self.succeed(LLMC, "plan", *words, "--json")
        plan = json.loads(done.out)
        scaled = [product for product in plan["products"] if product.get("scaling")]
        self.assertEqual({product["scaling"] for product in scaled}, {"blocks"})
        self.assertEqual(len(scaled), 12)
        bf16 = json.loads(self.succeed(LLMC, "plan", *words[:-1], "--json").out)
        self.assertLess(plan["step_seconds"], bf16["step_seconds"])
        self.assertIn("does not compile", self.succeed(LLMC, "plan", *words).out)
        for command in ("compile", "emit"):
            out = self.path("refused")
            done = harness.call(LLMC, command, *words, "-o", out)
            self.assertEqual((done.code, os.path.exists(out)), (1, False), done.err)
            self.assertIn("Write precision.matmul: fp8_tensor, or target.kind: cpu", done.err)
        out = self.path("refused")
        for command in (("run", ), ("verify", "-o", out), ("verify", "-o", out, "--emit-only")):
            done = harness.call(LLMC, command[0], *words, *command[1:], cwd=self.folder)
            self.assertEqual((done.code, os.path.exists(out)), (1, False), done.err)
            self.assertIn("Write precision.matmul: fp8_tensor, or target.kind: cpu", done.err)

    def test_options_of_a_plan_that_say_nothing_or_the_same(self):
        spec = os.path.join(SOURCE, "specs", "tiny.yaml")
        for words in (["--html", ""], ["--explain", ""], ["--measured",
                                                          ""], ["--measured",
                                                                self.folder], ["--price",
                                                                               "nan"], ["--pin", "--price", "1"],
                      ["--pin", "--explain",
                       "adamw"], ["--device", "h200",
                                  "target.device=h100-sxm"], ["--kernels", "--json",
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
        self.assertEqual(seconds(spec, "--device", "slow.yaml", "target.device=slow.yaml", cwd=folder), slow)
        with open(spec, encoding="utf-8") as file:
            lines = file.read()
        self.assertEqual(lines.count("target: {"), 1)
        named = os.path.join(folder, "named.yaml")
        with open(named, "w", encoding="utf-8") as file:
            file.write(lines.replace("target: {", "target: {device: slow.yaml, "))
        self.assertEqual(seconds(named, cwd="/"), slow)  # written: relative to the spec
        done = harness.call(LLMC, "plan", spec, "target.device=h100-sxm")
        self.assertEqual(done.code, 1)
        self.assertIn("target.device h100-sxm is of compute capability 90, but target.kind is cpu", done.err)

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
        self.assertRegex(
            text, rf"(?m)^matmul bf16x3: {len(by) - 4} of {len(by)} products .*fp32 by oneDNN.*: "
            rf"{', '.join(name for name in by if name in in_fp32)}$")
        self.assertIn("(bf16x3 in tiles)", self.succeed(LLMC, "plan", spec, *named, "--launches").out)
        self.assertNotIn("bf16x3", self.succeed(LLMC, "plan", spec, *named[1:]).out)
        words = ["target.arch: sapphirerapids", "precision.matmul: auto"]
        refused = [("emit", "-o", self.path("emitted"))]
        if harness.has_tiles():
            self.succeed(LLMC, "plan", spec, *harness.BF16X3)
        else:
            refused += [("plan", ), ("compile", "-o", self.path("compiled")), ("run", ), ("verify", )]
        for command, *options in refused:
            done = harness.call(LLMC, command, spec, *harness.BF16X3, *options, cwd=self.folder)
            self.assertEqual((done.code, done.out), (3, ""), command)
            for word in ["precision.matmul: bf16x3", "AMX", *words]:
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
        self.assertIn("memory.recompute: ", done.err)
        self.assertRegex(done.err, r" MiB  .*process.*arena")

    def test_what_would_fit_does(self):
        """llmc can plan every suggestion for a run that does not fit, as written."""
        seen = set()
        for spec, sizes in (("llama-1b", [
            ("24GiB", ), ("23GiB", "batch.micro_batch=1", "memory.loss_chunk=2048", "memory.recompute=none"),
            ("40GiB", ), ("54GiB", "memory.loss_chunk=32768"), ("23GiB", "batch.micro_batch=auto"),
            ("23GiB", "memory.loss_chunk=2048"),
            ("21400MiB", "batch.micro_batch=1", "memory.loss_chunk=auto", "memory.recompute=full"),
            ("20GiB", "batch.micro_batch=1", "memory.loss_chunk=1024", "memory.recompute=full")
        ]), ("tiny", [("1MiB", ), ("2MiB", ), ("3MiB", ), ("4MiB", ),
                      ("1GiB", "data.validation.path=held-out.bin", "evaluation.sequences=1000000")])):
            for budget, *overrides in sizes:
                words = ["plan", f"specs/{spec}.yaml", *overrides]
                done = harness.call(LLMC, *words, f"memory.budget={budget}", cwd=SOURCE)
                self.assertEqual((done.code, done.out), (4, ""), f"{words} {budget}\n{done.err}")
                said = re.search(
                    r"\nwrite (.*), if the device [^,\n]*(, or [^,\n]*smaller)?(\n[^\n]* \d+ or more devices with (.*))?\n$",
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
                    ("memory.recompute", ), ("batch.sequence_length", ), ("memory.budget", ),
                    ("evaluation.sequences", )]:
            self.assertIn(way, seen)


if __name__ == "__main__":
    harness.main()

"""Several simulated GPUs train like one: with sharding, accumulation and recomputation, and when one is lost."""

import importlib.util
import json
import os
import re
import signal
import sys
import time

import harness
import streams
import torchrun
import yaml

sys.modules["harness"] = harness.runs  # the module that tests/runs/ranks.py imports by this name
_spec = importlib.util.spec_from_file_location("runs_ranks", os.path.join(harness.SOURCE, "tests", "runs", "ranks.py"))
runs_ranks = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(runs_ranks)
import processes  # noqa: E402  it imports what "harness" means now
import timelines  # noqa: E402

STEPS = 4
EVERY = ("evaluation.every=2", "sampling.every=4", "sampling.tokens=2", "checkpoint.every=2")
# The time of a simulated GEMM says nothing of a GPU, and its memory must be empty before the arena.
PLAIN = ("evaluation.every=0", "sampling.every=0", "metrics.product_share=false")
# Five micro-batches per step, so that two and four ranks run unequal numbers of them, several each.
COMMON = (*(word for word in runs_ranks.UNEVEN if not word.startswith("memory.recompute")), *EVERY,
          f"schedule.steps={STEPS}")
# Moments of rows begin at addresses that no vector may be read from.
NEURONS = ("optimizer.kind=muon", "optimizer.muon.normalise=neurons")
KINDS = {
    "optimizer": ("parallel.shard=optimizer", ),
    "none": ("parallel.shard=none", ),
    "gradients": ("parallel.shard=gradients", ),
    "parameters": ("parallel.shard=parameters", ),
    "recompute": ("parallel.shard=optimizer", "memory.recompute=full"),
    "split": ("parallel.shard=parameters", "precision.master=split"),
    "muon": ("parallel.shard=none", *NEURONS),
    "muon_sharded": ("parallel.shard=parameters", *NEURONS),
    "sent":
    ("parallel.shard=parameters", "parallel.gradient_dtype=bf16", "memory.recompute=full", "parallel.reserved_sms=16"),
}
SHARDS = ("optimizer", "none", "gradients", "parameters")
LOST = 170


class SimRanks(harness.SimTest):
    assert_near = runs_ranks.Ranks.assert_near

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.spec = harness.runs.write_small(cls.folder, harness.SMALL)
        cls.trainers = {
            kind: harness.compile(cls.spec, os.path.join(cls.folder, kind), *COMMON, *words)
            for kind, words in KINDS.items()
        }

    def start_ranks(self, ranks, *command, launcher=torchrun.variables, **environment):
        """The processes of a run in rank order; each writes to <folder>/rank-N.log, with one LLMC_SIM_LOG per rank.
        launcher(rank, ranks, port): variables of a rank."""
        port = torchrun.free_port()
        processes = []
        for rank in range(ranks):
            changes = {name: value.format(rank=rank) for name, value in environment.items()}
            variables = launcher(rank, ranks, port) if ranks > 1 else {}
            with open(self.path(f"rank-{rank}.log"), "w") as log:
                processes.append(
                    self.start(*command, stdout=log, stderr=log,
                               env=harness.runs.environment(LLMC_SIM_GPUS=str(ranks), **variables, **changes)))
        return processes

    def ended(self, processes, seconds=harness.runs.HANGS):
        """Exit codes and outputs."""
        until = time.monotonic() + seconds
        codes = [process.wait(timeout=max(0, until - time.monotonic())) for process in processes]
        return codes, [harness.runs.read(self.path(f"rank-{rank}.log")).decode() for rank in range(len(processes))]

    def train(self, ranks, kind, name, *words, **environment):
        codes, said = self.ended(
            self.start_ranks(ranks, self.trainers[kind], "--run", self.path(name), *words, **environment))
        self.assertEqual(codes, [0] * ranks, f"{kind}, {ranks} ranks\n" + "\n".join(said))
        return said

    def checkpoint(self, name, step=STEPS):
        return self.path(name, "checkpoints", f"step-{step:08d}")

    def clean(self):
        """Name of an undisturbed run of four ranks, with its trace."""
        name = "optimizer-4"
        if not os.path.exists(self.path(name)):
            self.train(4, "optimizer", name, "--trace", self.path(name + "-trace"))
        return name

    def gradients(self, name):
        return harness.runs.tensors(self.path(name + "-trace", "step-0", "gradients.safetensors"))

    def test_any_number_trains_alike(self):
        for kind in SHARDS:
            for ranks in (1, 2, 4):
                where, name = f"{kind}, {ranks} ranks", f"{kind}-{ranks}"
                if name != self.clean():
                    self.train(ranks, kind, name, "--trace", self.path(name + "-trace"))
                alone = "optimizer-1"
                difference, tensor = harness.runs.relative_difference(self.gradients(name), self.gradients(alone))
                self.assertLess(difference, runs_ranks.SUMS, f"{where}: {tensor}")
                self.assert_near(self.checkpoint(name), self.checkpoint(alone), runs_ranks.TRAINED["bf16"], where)
                for line, expected in zip(*(harness.runs.json_lines(self.path(of, "metrics.jsonl"))
                                            for of in (name, alone))):
                    for key in ("loss", "val_loss", "grad_norm"):
                        self.assertEqual(key in line, key in expected)
                        if key in line:
                            self.assertLess(abs(line[key] / expected[key] - 1), runs_ranks.TRAINED["bf16"],
                                            f"{where}, {key} of step {line['step']}")

    def test_gradients_are_sent_in_bf16(self):
        self.clean()
        said = self.train(2, "sent", "sent-2", "--steps", 1, "--trace", self.path("sent-2-trace"),
                          LLMC_SIM_LOG=self.path("sent-{rank}.log"))
        self.assertRegex(said[0], r"NCCL_ALGO=\^NVLS,NVLSTree .*deterministic: true")
        for rank in range(2):
            log = harness.runs.read(self.path(f"sent-{rank}.log")).decode()
            self.assertIn("nccl: NCCL_ALGO ^NVLS,NVLSTree\n", log)
            self.assertIn("nccl: maxCTAs 16\n", log)
        difference, tensor = harness.runs.relative_difference(self.gradients("sent-2"), self.gradients("optimizer-4"))
        self.assertLess(difference, runs_ranks.SENT_IN_BF16, tensor)
        self.assertGreater(difference, runs_ranks.SENT_IN_BF16 / 16, "nothing was rounded")

    def test_products_are_tuned_for_the_sms_that_are_left(self):
        file = self.path("sent", "tuned.json")
        self.succeed(self.trainers["sent"], "tune", "--sustained", 0)
        self.addCleanup(os.remove, file)
        with open(file) as text:
            devices = [entry["device"] for entry in json.load(text)["entries"]]
        (card, left) = sorted(set(devices))
        self.assertEqual(devices.count(card), devices.count(left))
        self.assertRegex(left, "^" + re.escape(card) + r", .*products use \d+$")
        for ranks in (1, 2):
            said = self.train(ranks, "sent", f"tuned-{ranks}", "--steps", 1, *PLAIN)
            self.assertRegex(said[0], r"gemm +(\d+) of \1 algorithms as in ", f"{ranks} ranks")

    def test_timeline(self):
        """Rank 0's launches on two tracks, as in the plan for this number of ranks; the run trains to the same bits as
        one without."""
        file = self.path("timeline.json")
        self.train(2, "parameters", "timed", "--steps", 2, "--timeline", file, "--timeline-steps", "1:2")
        self.train(2, "parameters", "untimed", "--steps", 2)
        self.assert_same_files(self.checkpoint("timed", 2), self.checkpoint("untimed", 2), "with a timeline")
        words = (self.spec, *COMMON, *KINDS["parameters"], *harness.TARGET)
        alone, plan = (json.loads(self.succeed(harness.LLMC, "plan", *words, "--world", ranks, "--json").out)
                       for ranks in (1, 2))
        timeline = timelines.read(file)
        found = timelines.check(self, timeline, plan, range(1, 3), alone["fingerprint"])
        beside = {launch["name"] for launch in timelines.launches(timeline) if launch["tid"] == 2}
        self.assertEqual(beside, {op for region, op, _ in found if region.startswith(("gather", "reduce"))})
        self.assertIn("launches explain", self.succeed(harness.LLMC, "plan", *words, "--measured", file).out)

    def test_ranks_replay_alike_after_a_phase_with_other_micro_batches(self):
        """Two micro-batches a step, then three: rank 1 runs passes for the first time that rank 0 has recorded."""
        phases = "phases: [{until: 50%, batch: {tokens: 48}}, {until: 100%, batch: {tokens: 72}}]\n"
        spec = harness.runs.write_small(self.path("phases"), harness.SMALL + phases)
        words = (word for word in harness.SHORT if not word.startswith("batch.tokens"))
        self.trainers["phases"] = harness.compile(spec, self.path("phases", "trainer"), *words,
                                                  f"schedule.steps={2 * STEPS}")
        log = self.path("phases", "log-")
        self.train(2, "phases", "phased", *PLAIN, "checkpoint.every=0", LLMC_SIM_LOG=log + "{rank}")
        for rank in range(2):
            self.assertIn("launch of a graph", harness.runs.read(log + str(rank)).decode())

    def test_products_leave_sms_to_collectives(self):
        """Of the simulated 132 SMs; with one rank nothing overlaps with GEMMs."""
        for ranks, left in ((1, False), (2, True)):
            log = self.path(f"sms-{ranks}-")
            self.train(ranks, "sent", f"sms-{ranks}", "--steps", 1, *PLAIN, LLMC_SIM_LOG=log + "{rank}")
            for rank in range(ranks):
                products = re.findall(r"stream \d+: product .*", harness.runs.read(log + str(rank)).decode())
                self.assertGreater(len(products), 10)
                self.assertEqual({product.endswith(" on 116 SMs") for product in products}, {left})

    def test_what_is_computed_again_has_the_same_bits(self):
        self.train(4, "recompute", "again")
        for file in ("model.safetensors", "optimizer.safetensors"):
            ours, theirs = (harness.runs.read(os.path.join(self.checkpoint(name), file))
                            for name in ("again", self.clean()))
            self.assertTrue(ours == theirs, file)

    def test_split_masters_have_the_same_bits(self):
        """Each rank gathers its copies, and before a checkpoint the joined masters."""
        self.train(2, "parameters", "whole-masters")
        self.train(2, "split", "split-masters")
        for file in ("model.safetensors", "optimizer.safetensors"):
            ours, theirs = (harness.runs.read(os.path.join(self.checkpoint(name), file))
                            for name in ("split-masters", "whole-masters"))
            self.assertTrue(ours == theirs, file)

    def test_muon_has_the_same_bits_for_each_shard(self):
        """A micro-batch a rank, so that both add the same two gradients, and no clipping, because a sum of squares is
        cut by shards. Later steps are graphs."""
        for kind in ("muon", "muon_sharded"):
            self.train(2, kind, "run-" + kind, "batch.tokens=48", "optimizer.clip_norm=0")
        for file in ("model.safetensors", "optimizer.safetensors"):
            ours, theirs = (harness.runs.read(os.path.join(self.checkpoint(name), file))
                            for name in ("run-muon", "run-muon_sharded"))
            self.assertTrue(ours == theirs, file)

    def test_equal_runs_have_equal_bits(self):
        self.succeed(self.trainers["optimizer"], "--ranks", 4, "--run", self.path("started"),
                     env=harness.runs.environment(LLMC_SIM_GPUS="4"))
        self.assert_same_files(self.checkpoint("started"), self.checkpoint(self.clean()), "started by --ranks")
        self.train(4, "optimizer", "stopped", "--steps", 1)
        self.train(4, "optimizer", "stopped")
        self.assert_same_files(self.checkpoint("stopped"), self.checkpoint(self.clean()), "stopped after step 1")

    def test_a_checkpoint_of_four_goes_to_one_and_two(self):
        start = self.checkpoint(self.clean(), 2)
        saved = harness.runs.tensors(os.path.join(start, "model.safetensors"))
        for ranks, kind in ((1, "none"), (2, "optimizer"), (2, "parameters")):
            name = f"to-{ranks}-{kind}"
            trace = self.path(name + "-trace")
            self.train(ranks, kind, name, "--resume", start, "--trace", trace)
            self.assertEqual(harness.runs.tensors(os.path.join(trace, "step-2", "weights.safetensors")), saved, name)
            self.assert_near(self.checkpoint(name), self.checkpoint(self.clean()), runs_ranks.TRAINED["bf16"], name)

    def collectives(self, steps):
        """How often each collective ran on the devices of two ranks."""
        log = self.path(f"log-{steps}-")
        self.train(2, "optimizer", f"log-{steps}", "--steps", steps, *PLAIN, "checkpoint.every=0",
                   LLMC_SIM_LOG=log + "{rank}")
        counts = []
        for rank in range(2):
            names = re.findall(r"stream \d+: (all-reduce|reduce-scatter|all-gather|broadcast)\n",
                               harness.runs.read(log + str(rank)).decode())
            counts.append({name: names.count(name) for name in set(names)})
        self.assertEqual(counts[0], counts[1])
        return counts[0]

    def test_a_step_runs_the_collectives_of_the_plan(self):
        two, three = self.collectives(2), self.collectives(3)
        plan = json.loads(
            self.succeed(harness.LLMC, "plan", self.spec, "--json", "--world", 2, *COMMON, *harness.TARGET).out)
        planned = {}
        for launch in plan["launches"]:
            if launch["kind"] == "collective" and launch["times"]:
                planned[launch["runs"]] = planned.get(launch["runs"], 0) + launch["times"]
        ran = {name: times - two[name] for name, times in three.items() if times != two[name]}
        self.assertEqual(
            ran, {
                "all-reduce": planned["all_reduce"] + planned["sum_results"], "reduce-scatter":
                planned["reduce_scatter"], "all-gather": planned["all_gather"]
            })

    def test_collectives_run_beside_the_passes_as_the_plan_says(self):
        """Three steps, of which the later ones are graphs; docs/reference/ranks.md draws a pass of the last one."""
        for kind in ("optimizer", "gradients", "parameters"):
            log = self.path(f"beside-{kind}-")
            self.train(2, kind, f"beside-{kind}", "--steps", 3, *PLAIN, "checkpoint.every=0",
                       LLMC_SIM_LOG=log + "{rank}")
            plan = json.loads(
                self.succeed(harness.LLMC, "plan", self.spec, "--json", "--world", 2, *COMMON, *KINDS[kind],
                             *harness.TARGET).out)
            beside = {c["region"]: 3 * c["times"] for c in plan["ranks"]["collectives"] if c["beside_compute"]}
            self.assertEqual(set(beside), {"reduce_head", "reduce_layer", "gather_layer", "gather_head"})
            for rank in range(2):
                count, wrong = streams.not_beside(harness.runs.read(log + str(rank)).decode(), beside)
                self.assertEqual(wrong, [], f"{kind}, rank {rank}")
                if rank == 0:  # rank 1 has fewer micro-batches
                    self.assertEqual(count, beside, kind)
        drawn = streams.gantt(harness.runs.read(log + "0").decode())
        path = os.path.join(harness.SOURCE, "docs", "reference", "ranks.md")
        page = harness.runs.read(path).decode()
        if os.environ.get("LLMC_UPDATE_GOLDEN"):
            page = re.sub(r"```mermaid\n.*?```", lambda _: f"```mermaid\n{drawn}```", page, flags=re.S)
            with open(path, "w") as file:
                file.write(page)
        self.assertIn(f"```mermaid\n{drawn}```", page)

    def saved(self, job, name):
        """Waits for a first checkpoint."""
        until = time.monotonic() + harness.runs.HANGS
        while not os.path.isdir(self.path(name, "checkpoints")) or not os.listdir(self.path(name, "checkpoints")):
            self.assertIsNone(job[0].poll(), harness.runs.read(self.path("rank-0.log")).decode())
            self.assertLess(time.monotonic(), until)
            time.sleep(0.05)

    def test_a_network_that_breaks_ends_all(self):
        """NCCL reports it itself, in the middle of a step."""
        job = self.start_ranks(3, self.trainers["optimizer"], "--run", self.path("broken"), "schedule.steps=100000",
                               "checkpoint.every=0", *PLAIN, LLMC_SIM_NCCL_ERROR="1:40")
        begin = time.monotonic()
        codes, said = self.ended(job)
        self.assertLess(time.monotonic() - begin, 30)
        self.assertEqual(codes, [LOST] * 3, "\n".join(said))
        why = r'NCCL 2\.28\.9: .*"remote process exited or there was a network error", the simulated network broke'
        self.assertRegex(said[1], "error: " + why)
        for rank in range(3):
            if rank != 1:
                self.assertRegex(
                    said[rank],
                    r"error: rank 1 \(host .*\) is lost: .*exit code 170: " + why + r".* at step \d+ in training")
            self.assertRegex(said[rank], rf"rank {rank} \(host [^(]*\), at step \d+ in training, .*exit code 170")

    def test_a_killed_rank_ends_all(self):
        job = self.start_ranks(3, self.trainers["optimizer"], "--run", self.path("killed"), "--peer-timeout", 5,
                               "schedule.steps=100000", "checkpoint.keep_last=2", *PLAIN)
        self.saved(job, "killed")
        begin = time.monotonic()
        job[1].send_signal(signal.SIGKILL)
        codes, said = self.ended(job)
        self.assertLess(time.monotonic() - begin, 15)
        self.assertEqual(codes, [LOST, -signal.SIGKILL, LOST], "\n".join(said))
        for rank in (0, 2):
            self.assertIn("rank 1 (host", said[rank])

    def test_a_rank_that_drifts_is_named(self):
        plan = json.loads(
            self.succeed(harness.LLMC, "plan", self.spec, "--json", "--world", 3, *COMMON, *harness.TARGET,
                         "parallel.shard=none").out)
        job = self.start_ranks(3, self.trainers["none"], "--run", self.path("drifted"), "schedule.steps=100000",
                               "parallel.compare_every=3", "checkpoint.keep_last=2", *PLAIN)
        self.saved(job, "drifted")
        processes.stop(job[1].pid)
        processes.Arena(job[1].pid, plan, 8).flip("masters", plan["ranks"]["buckets"][-1]["offset"], 100)
        job[1].send_signal(signal.SIGCONT)
        codes, said = self.ended(job)
        self.assertEqual(codes, [7, 7, 7], "\n".join(said))
        self.assertRegex(said[0], r"rank 1 \(host .*\) .*: after step \d+ .* masters is [0-9a-f]{16} on ranks 0, 2 ")

    def test_two_ranks_of_one_gpu_are_refused(self):
        for name, words, shown in (("chosen", ("--device", 0), "0,1"), ("shown", (), "1")):
            codes, said = self.ended(
                self.start_ranks(2, self.trainers["optimizer"], "--run", self.path(name), *words,
                                 CUDA_VISIBLE_DEVICES=shown))
            self.assertEqual(codes, [2, 2], "\n".join(said))
            self.assertIn("ranks 0 and 1 ", said[0])

    def test_the_pods_of_the_kubernetes_manifest_train(self):
        """Each with the manifest's variables that do not come from a cluster, and its own GPU."""
        with open(os.path.join(harness.SOURCE, "docs", "launch", "kubernetes.yaml")) as file:
            service, job = yaml.safe_load_all(file)
        name, spec, pod = job["metadata"]["name"], job["spec"], job["spec"]["template"]["spec"]
        (container, ) = pod["containers"]
        given = {variable["name"]: variable.get("value", variable.get("valueFrom")) for variable in container["env"]}
        self.assertEqual(spec["completionMode"], "Indexed")
        self.assertEqual(
            given.pop("RANK"),
            {"fieldRef": {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}})
        self.assertEqual({spec["completions"], spec["parallelism"]}, {int(given["WORLD_SIZE"])})
        self.assertEqual(given["MASTER_ADDR"], f"{name}-0.{service['metadata']['name']}")
        self.assertEqual((pod["subdomain"], service["spec"]["clusterIP"], service["spec"]["selector"]),
                         (service["metadata"]["name"], "None", {"job-name": name}))
        self.assertEqual(container["resources"]["limits"], {"nvidia.com/gpu": 1})
        again = [
            code for rule in spec["podFailurePolicy"]["rules"] if rule["action"] == "Ignore"
            for code in rule.get("onExitCodes", {}).get("values", [])
        ]
        self.assertEqual((pod["restartPolicy"], again), ("Never", [75, LOST]))

        def variables(rank, ranks, port):
            return {
                **given, "RANK": str(rank), "WORLD_SIZE": str(ranks), "MASTER_ADDR": "localhost", "MASTER_PORT":
                str(port)
            }

        self.train(2, "optimizer", "pods", "--steps", 1, *PLAIN, launcher=variables, CUDA_VISIBLE_DEVICES="{rank}")

    def test_each_rank_may_be_shown_its_own_gpu_alone(self):
        """As with srun --gpus-per-task=1: the machine's second rank has GPU 1, visible as its first."""
        self.train(2, "optimizer", "own", "--steps", 1, *PLAIN, CUDA_VISIBLE_DEVICES="{rank}")


if __name__ == "__main__":
    harness.main()

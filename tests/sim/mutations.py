"""The purpose of the simulated GPU: with one barrier, wait or sum removed from a copy of the sources, a run must fail.

Intact shows first, once for all, that the runs pass without faults."""

import os
import shutil

import harness

# Runs that are modified: specs, and arguments of `llmc emit`.
RUNS = {
    "small": (harness.SMALL, []),
    "portable": (harness.SMALL, ["target.attention=portable"]),
    "wide": (harness.SMALL.replace("vocab_size: 97",
                                   "vocab_size: 50001"), []),  # a row of logits is too long for one block
}
KEPT = os.path.join(harness.BUILT,
                    "mutations")  # RUN/project, RUN/gradients.safetensors and RUN/metrics.jsonl, without a fault


class Run(harness.SimTest):

    def setUp(self):
        self.test = self.id().split(".")[-1]

    def spec(self, run):
        return harness.runs.write_small(self.path(self.test), RUNS[run][0])

    def training(self, trainer):
        """Command line of a training run."""
        return [
            trainer, "--run",
            self.path(self.test, "run"), "--steps", 2, "--trace",
            self.path(self.test, "trace"), "evaluation.every=0", "sampling.every=0", "checkpoint.every=0",
            "metrics.product_share=false"
        ]  # would be stream 1

    def files(self):
        """Files of a run that are also in KEPT."""
        return [
            self.path(self.test, "trace", "step-0", "gradients.safetensors"),
            self.path(self.test, "run", "metrics.jsonl")
        ]


class Intact(Run):
    """Runs before Mutations: here by its name, in ctest as their fixture."""

    def right(self, run):
        kept = os.path.join(KEPT, run)
        shutil.rmtree(kept, ignore_errors=True)
        self.succeed(*self.training(harness.compile(self.spec(run), os.path.join(kept, "project"), *RUNS[run][1])))
        for file in self.files():
            shutil.copy(file, kept)

    def test_small(self):
        self.right("small")

    def test_portable(self):
        self.right("portable")

    def test_wide(self):
        self.right("wide")


class Mutations(Run):

    def right(self, run, file):
        """Path of a file of the run without a fault."""
        path = os.path.join(KEPT, run, file)
        self.assertTrue(os.path.exists(path), "the run without a change has failed (Intact)")
        return path

    def changed(self, run, file, **change):
        """Command line of the run with `file` recompiled with a fault, arguments as in harness.changed."""
        self.right(run, "metrics.jsonl")
        return self.training(
            harness.changed(self.right(run, "project"), self.spec(run), self.path(self.test, "trainer"), [file],
                            **change))

    def sources(self, file, before, after):
        return harness.changed_sources(self.path(self.test, "sources"), file, before, after)

    def wrong(self, file, before, after):
        """Command line of the run with a fault in a source of the runtime."""
        return self.changed("small", file, sources=self.sources(file, before, after))

    def wrong_group(self, run, kernel, before, after):
        """Command line of the run with a fault in one kernel's copy of the header of what lanes exchange."""
        return self.changed(run, f"kernels/{kernel}.cu", sources=self.sources("runtime/device/cuda/lane_exchange.h",
                                                                              before, after))

    def test_barrier(self):
        """Sums over the warps of a block without the barrier between writing and reading the warps' parts."""
        said = self.reported(
            *self.wrong_group("small", "gradient_norm", "= result;\n      barrier();\n", "= result;\n"))
        self.assertRegex(
            said,
            r"sim: race in kernel gradient_norm.* of shared memory; lane \d+ of block 0 (wrote|read) them, and no barrier"
        )

    def test_double_buffer(self):
        """Two consecutive sums through the same shared memory: the second may overwrite values that a lane still
        reads."""
        said = self.reported(
            *self.wrong_group("small", "adamw_copy_norms", "distance));\n      turn_ ^= 1;\n", "distance));\n"))
        self.assertRegex(
            said,
            r"sim: race in kernel adamw_copy_norms.* writes bytes .* of shared memory; lane \d+ of block \d+ read them")

    def without(self, kernel, what):
        """Command line of a run with llmc's own attention in which `what`, which occurs once in a kernel, is removed.
        """

        def edit(folder):
            path = os.path.join(folder, "kernels", kernel + ".cu")
            with open(path) as source:
                text = source.read()
            self.assertEqual(text.count(what), 1, f"{kernel} no longer has what this test takes out: {what}")
            with open(path, "w") as source:
                source.write(text.replace(what, ""))

        return self.changed("portable", f"kernels/{kernel}.cu", edit=edit)

    def test_wait_for_a_copy(self):
        """Keys and values are multiplied while their copies to shared memory are still in flight."""
        said = self.reported(*self.without("attention_backward_queries", "wait_for_copies();"))
        self.assertRegex(
            said,
            r"sim: kernel attention_backward_queries.* reads bytes .* of shared memory before an asynchronous copy")

    def test_barrier_behind_a_copy(self):
        """Each lane waits for its own copies of queries, but not for the others'."""
        said = self.reported(*self.without("attention_backward_keys", "__syncthreads();"))
        self.assertRegex(
            said,
            r"sim: (race in kernel attention_backward_keys|kernel attention_backward_keys.* before an asynchronous copy)"
        )

    def test_barrier_of_a_cluster(self):
        """A softmax over the blocks of a cluster without the barrier between writing to all blocks and reading."""
        said = self.reported(*self.wrong_group("wide", "cross_entropy_gradient",
                                               "        cluster_arrive();\n        cluster_wait();\n", ""))
        self.assertRegex(said, r"sim: race in kernel cross_entropy_gradient.* of shared memory")

    def test_release_to_a_cluster(self):
        """The same barrier with a relaxed arrival: earlier writes are not visible."""
        said = self.reported(*self.wrong_group("wide", "cross_entropy_gradient", "        cluster_arrive();\n",
                                               "        cluster_arrive_relaxed();\n"))
        self.assertRegex(said, r"sim: race in kernel cross_entropy_gradient.* of shared memory")

    def test_begin_of_a_cluster(self):
        """A block writes to others of its cluster that may not have started; lanes that write nothing still arrive at
        the barrier."""
        said = self.reported(
            *self.wrong_group("wide", "cross_entropy_gradient", "        if (!begun_) cluster_wait();\n", ""))
        self.assertRegex(
            said, r"sim: kernel cross_entropy_gradient.*( writes shared memory of a block that may not have begun|"
            r": lane \d+ comes to the barrier of its cluster twice without waiting)")

    def test_accumulation(self):
        """The second micro-batch overwrites the gradients of the first."""
        right = harness.runs.tensors(self.right("small", "gradients.safetensors"))
        self.succeed(*self.wrong("runtime/math/cublaslt/product.cpp", "adds = o.accumulate || ", "adds = "))
        error, name = harness.runs.relative_difference(harness.runs.tensors(self.files()[0]), right)
        self.assertGreater(error, 0.1, name)  # half of the sum is missing

    def test_wait_for_inputs(self):
        """The device uses a block of inputs without waiting for the copy stream."""
        said = self.reported(
            *self.wrong("runtime/device/cuda/pipeline.cpp", "  slot.arrived.hold(impl_->compute);\n", ""))
        self.assertRegex(
            said,
            r"sim: race: copy .*\(stream [01]\) (reads|writes) bytes .*; copy .*\(stream [01]\) (wrote|read) them, and no event"
        )

    def test_wait_for_a_free_slot(self):
        """The copy stream fills a slot without waiting until the device is done with its old content."""
        command = self.wrong("runtime/device/cuda/pipeline.cpp", "  slot.taken.hold(impl_->copies);\n", "")
        trace = command.index("--trace")  # its reads would make the host wait for everything
        said = self.reported(*command[:trace], *command[trace + 2:])
        self.assertRegex(said,
                         r"sim: race: copy to the device \(stream 1\) writes bytes .*, and no event orders the two")

    def test_wait_of_the_host(self):
        """The host reads results in pinned memory without waiting for the copy into it."""
        self.succeed(
            *self.wrong("runtime/device/cuda/pipeline.cpp", "  slot.arrived.wait();\n  return {", "  return {"))
        wrong, right = (harness.runs.json_lines(path)[0]["loss"]
                        for path in (self.files()[1], self.right("small", "metrics.jsonl")))
        self.assertNotEqual(wrong, right)  # the buffer's earlier content: uninitialised bytes


if __name__ == "__main__":
    harness.main()

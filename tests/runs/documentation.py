"""Runs every command of README.md and PAGES as it is written there, in order, in one folder with the built llmc, and compares
the output that a page shows. docs/explanation/walkthrough.md: walkthrough.py."""

import json
import os
import re
import shutil

import harness
import pages
from harness import RunTest

DATASET = os.environ.get("LLMC_DATASET", "/tmp/llmc-dataset")
PAGES = ("README.md", ) + tuple(f"docs/{page}.md" for page in (
    "tutorial/first-run", "reference/commands", "reference/specs", "reference/formats", "reference/cuda",
    "reference/trainer", "reference/run-folder", "reference/checkpoints", "reference/exit-codes", "reference/guards",
    "reference/ranks", "how-to/use-saved-weights", "how-to/start-from-weights", "how-to/resume", "how-to/sweep",
    "how-to/choose-rates", "how-to/export", "how-to/inspect-a-step", "how-to/export-metrics", "tutorial/first-gpu-run",
    "tutorial/several-nodes", "reference/gpu-messages", "explanation/planning"))
# Commands that are not run; of those that train, llmc check reads the values.
NOT_HERE = {
    "./test.sh": "runs this test",
    "cmake -G Ninja -B build && cmake --build build": "made the llmc of this test",
    "bundle/build/trainer --base specs": "run_bundle builds one, and trains",
    "build/quickstart/trainer [options] [key.path=value ...]": "says what may be written",
    "llmc plan specs/llama-1b.yaml --kernels": "nvcc takes minutes; run_kernels_nvcc makes the table of a small spec",
    "cmake -S llama-1b -B llama-1b/build && cmake --build llama-1b/build": "needs the CUDA toolkit, cuDNN and NCCL",
    "cmake -G Ninja -S llama-1b -B llama-1b/build && cmake --build llama-1b/build":
    "needs the CUDA toolkit, cuDNN and NCCL",
    "llmc compile specs/llama-1b.yaml": "needs the CUDA toolkit, cuDNN and NCCL",
    "build/llama-1b/trainer tune": "needs a GPU",
    "build/llama-1b/trainer --steps 20": "needs a GPU",
    "build/llama-1b/trainer --ranks 8": "needs eight GPUs",
    "llmc data build --from text/ --tokenizer Llama-3.2-1B/tokenizer.json -o data/llama-3.2-1b":
    "needs that model's file; run_tokenizer_ids makes data with others",
    "llmc data build --from text/web --vocab-size 131072 -o data/seed/web":
    "needs text; run_phases has it in miniature",
    "llmc data build --from text/wiki --tokenizer data/seed/web -o data/seed/wiki": "as the one before",
    "llmc run specs/seed-1b.yaml -- --ranks 8": "needs 8 GPUs; run_phases has it in miniature",
    "llmc checkpoint export specs/runs/seed-1b -o build/seed-1b-hf": "as the one before",
    "llmc plan specs/seed-1b.yaml phase=2": "the plan of a run for GPUs; run_phases plans a phase",
    "llmc sweep build/wide.yaml optimizer.lr=1e-3,2e-3 schedule.steps=200 schedule.warmup_steps=20 -o build/check":
    "needs a GPU",
    "llmc calibrate figures.json": "takes what a trainer has measured; run_calibrate does both",
    "nsys profile --capture-range=cudaProfilerApi build/llama-1b/trainer --steps 30 --profile 20:5": "needs a GPU",
}
# Commands run in a shorter form, which ends earlier or reads less.
SHORTER = {
    "build/quickstart/trainer":
    f"build/quickstart/trainer --steps 1 {pages.FEW}",
    "build/quickstart/trainer --ranks 2 batch.tokens=4096":
    f"build/quickstart/trainer --ranks 2 batch.tokens=4096 --run specs/runs/two-ranks --steps 1 {pages.FEW}",
    "./quickstart.sh":
    f"./quickstart.sh -- --steps 2 {pages.FEW}",
    "llmc data build --from /usr/lib/python3.1? --glob '*.py' --vocab-size 4096 -o data/stdlib":
    "llmc data build --from runtime --glob '*.h' --vocab-size 1024 -o data/stdlib",
    "llmc run specs/stdlib.yaml":
    f"llmc run specs/stdlib.yaml -- --steps 1 {pages.FEW}",
    "build/stdlib/trainer evaluate --checkpoint specs/runs/stdlib":
    "build/stdlib/trainer evaluate --checkpoint specs/runs/stdlib --sequences 2",
    "llmc data build --from /usr/share/doc --vocab-size 4096 -o data/text":
    "llmc data build --from compiler --glob '*.h' --vocab-size 1024 -o data/text",
    "llmc run specs/text.yaml -- --steps 200":
    f"llmc run specs/text.yaml -- --steps 1 {pages.FEW}",
    "build/quickstart/trainer sample --checkpoint specs/runs/quickstart --prompt 'import os' --tokens 40":
    "build/quickstart/trainer sample --checkpoint specs/runs/quickstart --prompt 'import os' --tokens 3",
    "build/quickstart/trainer --run specs/runs/lr-1e-3 optimizer.lr=1e-3 --steps 20":
    f"build/quickstart/trainer --run specs/runs/lr-1e-3 optimizer.lr=1e-3 --steps 1 {pages.FEW}",
    "build/quickstart/trainer --run specs/runs/lr-2e-3 optimizer.lr=2e-3 --steps 20":
    f"build/quickstart/trainer --run specs/runs/lr-2e-3 optimizer.lr=2e-3 --steps 1 {pages.FEW}",
    "llmc run specs/quickstart.yaml model.intermediate_size=1024 -o build/ffn-1024 -- --run specs/runs/ffn-1024 --steps 20":
    f"llmc run specs/quickstart.yaml model.intermediate_size=1024 -o build/ffn-1024 -- --run specs/runs/ffn-1024 --steps 1 {pages.FEW}",
    "llmc sweep specs/quickstart.yaml optimizer.lr=1e-3,2e-3,4e-3 schedule.steps=100 -o build/rates":
    f"llmc sweep specs/quickstart.yaml optimizer.lr=1e-3,2e-3 schedule.steps=1 schedule.warmup_steps=0 {pages.FEW} -o build/rates",
    "build/quickstart/trainer --run specs/runs/anneal init.from=specs/runs/quickstart data.seed=7 --steps 20":
    f"build/quickstart/trainer --run specs/runs/anneal init.from=specs/runs/quickstart data.seed=7 --steps 1 {pages.FEW}",
    "build/quickstart/trainer evaluate --checkpoint build/mean":
    "build/quickstart/trainer evaluate --checkpoint build/mean --sequences 2",
    "llmc run specs/quickstart.yaml init.from=build/mean -- --run specs/runs/from-mean --steps 20":
    f"llmc run specs/quickstart.yaml init.from=build/mean -- --run specs/runs/from-mean --steps 1 {pages.FEW}",
    "llmc run specs/quickstart.yaml init.from=specs/runs/quickstart -- --run specs/runs/from-weights --steps 1":
    f"llmc run specs/quickstart.yaml init.from=specs/runs/quickstart -- --run specs/runs/from-weights --steps 1 {pages.FEW}",
    "build/quickstart/trainer --timeline timeline.json --steps 5 --no-final-checkpoint --run runs/timed":
    f"build/quickstart/trainer --timeline timeline.json --steps 5 --no-final-checkpoint --run runs/timed {pages.FEW}",
    "llmc run specs/quickstart.yaml -- --steps 100":
    f"llmc run specs/quickstart.yaml -- --steps 3 {pages.FEW}",
    "llmc data build --from /usr/lib/python3.1? --glob '*.py' --vocab-size 4096 -o data/python":
    "llmc data build --from runtime --glob '*.h' --vocab-size 1024 -o data/python",
    "llmc data build --from /usr/lib/python3/dist-packages --glob '*.py' --tokenizer data/python --validation 0 -o data/more":
    "llmc data build --from compiler --glob '*.h' --tokenizer data/python --validation 0 -o data/more",
    "build/quickstart/trainer sample --checkpoint specs/runs/quickstart --prompt 'def main():' --tokens 20":
    "build/quickstart/trainer sample --checkpoint specs/runs/quickstart --prompt 'def main():' --tokens 3",
    "llmc calibrate":
    "llmc calibrate --help",  # run_calibrate measures
    "cmake -G Ninja -S bundle -B bundle/build && cmake --build bundle/build":
    "cmake -G Ninja -S bundle -B bundle/build",
}
# Commands that are refused, or report differences.
EXIT_CODES = {
    "llmc check specs/quickstart.yaml model.hidden_size=250 optimizer.lrr=3": 1,
    "llmc init --from some-model": 1,
    "llmc diff specs/quickstart.yaml specs/quickstart.yaml model.intermediate_size=1024": 1,
    "build/quickstart/trainer model.hidden_size=320": 2,
}
OTHER_DATA = ("llmc data info data/quickstart --sequence-length 256", )  # numbers of the page's own data set


class Documentation(RunTest):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.tree = pages.Tree(os.path.join(cls.folder, "tree"), DATASET)
        # Packages are installed and llmc is built: setup.sh and quickstart.sh continue from there.
        cls.built = os.path.join(cls.folder, "built")
        os.makedirs(cls.built)
        for name, script in (("dpkg-query", "echo install ok installed"), ("cmake", "exit 0")):
            with open(os.path.join(cls.built, name), "w") as file:
                file.write(f"#!/bin/sh\n{script}\n")
            os.chmod(os.path.join(cls.built, name), 0o755)
        # Model of the manual's refusal.
        model = os.path.join(cls.tree.folder, "some-model")
        os.makedirs(model)
        with open(os.path.join(model, "config.json"), "w") as file:
            json.dump(
                {
                    "model_type": "llama", "vocab_size": 512, "hidden_size": 64, "intermediate_size": 160,
                    "num_hidden_layers": 2, "num_attention_heads": 4, "hidden_act": "gelu", "num_local_experts": 8
                }, file)

    def run_as_written(self, command, shown):
        changes = {"PATH": self.built + ":" + os.environ["PATH"]} if command.startswith("./") else {}
        code, output = self.tree.shell(SHORTER.get(command, command), **changes)
        self.assertEqual(code, EXIT_CODES.get(command, 0), output)
        if command in OTHER_DATA:
            shown, output = [re.sub(r"[0-9a-f]{16}|[\d,]+", "N", line)
                             for line in shown], re.sub(r"[0-9a-f]{16}|[\d,]+", "N", output)
        pages.stands_in(self, shown, output, command)

    def test_every_command(self):
        known, ran = set(NOT_HERE) | set(SHORTER) | set(EXIT_CODES) | set(OTHER_DATA), 0
        for page in PAGES:
            for command, shown in pages.commands(page):
                known.discard(command)
                with self.subTest(page=page, command=command):
                    if command not in NOT_HERE:
                        self.run_as_written(command, shown)
                        ran += 1
                    elif pages.checked(command):
                        self.run_as_written(pages.checked(command), [])
        self.assertEqual(known, set(), "in a table here, and on no page")
        self.assertGreater(ran, 15)


if __name__ == "__main__":
    harness.main()

"""Compares docs/reference/launches.md with the emitted step of the reference run: the same launches, equally often, each
tensor once per launch."""

import collections
import itertools
import os
import re
import unittest

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CALL = re.compile(r"launch\(s\.stream, Grid\{[^}]+\}, (\w+), (.*)\);|s\.(\w+)\(s\.stream, (.*)\);"
                  r"|s\.attention\.(\w+)\(s\.stream, (.*)\);|s\.device\.(zero)\((.*)\);")
with open(os.path.join(SOURCE, "generated", "llama-1b", "step.h")) as header:
    HEADER = header.read()
# Arguments that may occur twice in a call: never a tensor.
NO_TENSOR = {"nullptr", "false", "!first", "0", "kChunkCount", "!first || chunk > 0"}


def functions():
    """Functions of the emitted step: name -> body, each statement on one line."""
    with open(os.path.join(SOURCE, "generated", "llama-1b", "step.cu")) as file:
        text = re.sub(r"//.*", "", file.read())
    bodies = {}
    for name, body in re.findall(r"^void (\w+)\([^)]*\) \{(.*?)\}\n(?=\n)", text, re.M | re.S):
        bodies[name] = re.sub(r"\s*\n\s*", " ", body)
    return bodies


def calls(body):
    """(what runs, its arguments) in order."""
    found = []
    for statement in re.split(r"(?<=;)\s*", body):
        match = CALL.search(statement)
        if match:
            kernel, kernel_arguments, product, product_arguments, attention, attention_arguments, zero, zero_arguments = match.groups(
            )
            arguments = (kernel_arguments or product_arguments or attention_arguments or zero_arguments).split(", ")
            names = [kernel or product or zero or f"attention {attention} (cuDNN)"]
            if attention == "backward" and "{AttentionBy::portable" in HEADER.split("kBackwardWays[]")[1].split(
                    "\n")[1]:
                # The variant chosen by default is llmc's own, of two kernels.
                names = re.findall(r"launch\(stream, Grid\{[^}]+\}, (\w+),", functions()["own_attention_backward"])
            found += [(name, arguments) for name in names]
    return found


def open_after(text):
    """Whether a brace is still open at its end."""
    depths = itertools.accumulate({"{": 1, "}": -1}.get(character, 0) for character in text)
    return all(depth >= 0 for depth in depths)


def regions_run(bodies, name, times, out):
    """Counts in `out` how often each region runs when function `name` runs, including loops."""
    body = bodies[name]
    if calls(body):
        out[name] += times
        return
    loops = [(m.start(), int(m.group(1) or m.group(2)), m.end())
             for m in re.finditer(r"for \(std::size_t \w+ = (?:0; \w+ < (\d+); \+\+\w+|(\d+); \w+-- > 0;)\) \{", body)]
    for match in re.finditer(r"(\w+)\(s[,)]", body):
        around = [count for begin, count, end in loops if begin < match.start() and open_after(body[end:match.start()])]
        regions_run(bodies, match.group(1), times * (around[0] if around else 1), out)


def page():
    """Rows of docs/reference/launches.md: (per step, region, runs, times, bytes)."""
    rows, step = [], False
    with open(os.path.join(SOURCE, "docs", "reference", "launches.md")) as file:
        for line in file:
            step |= line.startswith("## Once a step")
            cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
            if len(cells) == 6 and cells[3].isdigit() and cells[0] != "all":
                runs = re.sub(r" \((cuBLASLt|oneDNN|tiles)\)$", "", cells[2])
                rows.append((step, cells[0], runs, int(cells[3]), int(cells[4])))
    return rows


class Launches(unittest.TestCase):

    def setUp(self):
        self.bodies, self.rows = functions(), page()

    def test_the_page_lists_what_the_step_launches(self):
        for step, function in ((False, "micro_batch"), (True, "optimizer_step")):
            ran = collections.Counter()
            regions_run(self.bodies, function, 1, ran)
            emitted = [(region, name, times) for region, times in ran.items() for name, _ in calls(self.bodies[region])]
            self.assertEqual([(region, runs, times)
                              for per_step, region, runs, times, _ in self.rows if per_step == step], emitted)
            self.assertGreater(len(emitted), 3)

    def test_no_launch_takes_a_tensor_twice(self):
        # So each tensor is read at most once and written at most once per launch; in place or accumulated into if it is
        # both.
        seen = 0
        for name, body in self.bodies.items():
            for runs, arguments in calls(body):
                tensors = [argument for argument in arguments if argument not in NO_TENSOR]
                self.assertEqual(len(tensors), len(set(tensors)), f"{runs} in {name}: {tensors}")
                seen += len(tensors)
        self.assertGreater(seen, 100)


if __name__ == "__main__":
    unittest.main()

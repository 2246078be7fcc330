"""`llmc plan --html`: the page's numbers are those of plan.json, no text of a spec becomes markup, and a browser draws
it."""

import json
import os
import re
import shutil
import subprocess
import sys
import unittest

import harness
from harness import LLMC, SOURCE, RunTest
from report import Page

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
LARGE = os.path.join(SOURCE, "specs", "llama-1b.yaml")
# Reports in the page's title: its width, what is drawn, and errors.
PROBE = """<script>
addEventListener("load", () => setTimeout(() => { document.title = JSON.stringify({
  width: document.documentElement.scrollWidth, window: innerWidth,
  charts: [...document.querySelectorAll(".chart canvas")].map(canvas => canvas.clientWidth),
  ink: [...document.querySelectorAll(".chart canvas")].map(canvas =>
    new Set(new Uint32Array(canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data.buffer)).size),
  figures: [...document.querySelectorAll(".figure strong")].map(figure => figure.textContent), errors: window.problems }); }, 500));
</script></body>"""
CATCH = "<head><script>window.problems = []; onerror = message => { problems.push(String(message)); };</script>"


class PlanPage(RunTest):

    def made(self, *words):
        out = self.path("page.html")
        self.assertEqual(self.succeed(LLMC, "plan", *words, "--html", out).out, out + "\n")
        with open(out, encoding="utf-8") as file:
            return Page(file.read())

    def plan(self, *words):
        return json.loads(self.succeed(LLMC, "plan", *words, "--json").out)

    def check_numbers(self, *words):
        page, plan = self.made(*words).data(), self.plan(*words)
        for key in ("name", "fingerprint", "step_seconds", "tokens_per_second", "mfu", "run_seconds", "choice",
                    "batch"):
            self.assertEqual(page["plan"][key], plan[key], key)
        memory, live = page["memory"], plan["memory"]["live"]
        self.assertEqual(page["plan"]["arena_bytes"], plan["memory"]["arena_bytes"])
        self.assertEqual(memory["fixed_bytes"], live["fixed_bytes"])
        alive = [
            memory["fixed_bytes"] + run["kept"] + transient for run in memory["runs"]
            for _, transient in memory["transients"][run["region"]]
        ]
        self.assertEqual((max(alive), memory["peak"]["bytes"]), (live["peak_bytes"], live["peak_bytes"]))
        # The tensors named at the peak are those alive there, except for alignment.
        named = sum(tensor["bytes"] for tensor in memory["peak"]["tensors"])
        self.assertLess(abs(named - live["peak_bytes"]),
                        4096 * len(memory["peak"]["tensors"]) + live["peak_bytes"] / 1000)
        regions = {
            region["name"]: [launch["transient_bytes"] for launch in region["launches"]]
            for region in plan["regions"]
        }
        for name, ops in memory["transients"].items():
            self.assertLessEqual(set(regions[name]), {transient for _, transient in ops})
        kept = [run["kept"] for run in memory["runs"]]
        self.assertEqual(len([run for run in memory["runs"] if run["layer"] is not None]),
                         2 * len({run["layer"]
                                  for run in memory["runs"]} - {None}))
        self.assertEqual(kept[-1], 0)
        strip = [{key: value for key, value in op.items() if key not in ("bytes", "flops")} for op in page["ops"]]
        self.assertEqual(strip, plan["time"]["launches"])
        work = {(launch["region"], launch["op"], launch["runs"]): (launch["bytes"], launch["flops"])
                for launch in plan["launches"]}
        for op in page["ops"]:
            self.assertEqual((op["bytes"], op["flops"]), work[op["region"], op["op"], op["runs"]])
        self.assertEqual(page["advice"], {key: self.plan(*words, "--hints")[key] for key in ("limits", "hints")})
        self.check_streams(page, plan)
        self.check_choices(page, plan)
        # No recommendation exceeds the device's memory.
        for count, unit in re.findall(r"With memory.budget: (\d+)([KMGT]iB)", page["summary"][2]["says"]):
            self.assertLessEqual(
                float(count) * {"MiB": 2**20, "GiB": 2**30, "TiB": 2**40}[unit],
                plan["device"]["figures"]["memory"]["value"])
        return page

    def check_streams(self, page, plan):
        passes = page["streams"]["passes"]
        spans = [span for part in passes for span in part["spans"]]
        self.assertAlmostEqual(max(span["end"] for span in spans if span["does"] != "send"), plan["step_seconds"],
                               delta=1e-9)
        for lane in (("compute", "wait"), ("send", )):
            of_lane = sorted((span["begin"], span["end"]) for span in spans if span["does"] in lane)
            for (_, end), (begin, _) in zip(of_lane, of_lane[1:]):
                self.assertLessEqual(end, begin + 1e-12)
        if len(passes) == 1:
            waits = sum(span["end"] - span["begin"] for span in spans if span["does"] == "wait")
            self.assertAlmostEqual(waits, page["streams"]["exposed_seconds"], delta=1e-9)

    def check_choices(self, page, plan):
        mine, *others = page["choices"]
        self.assertTrue(mine["chosen"] and mine["fits"] and mine["difference"] == "")
        self.assertEqual((mine["step_seconds"], mine["arena_bytes"]),
                         (plan["step_seconds"], plan["memory"]["arena_bytes"]))
        self.assertEqual([other["difference"] for other in others if other["chosen"] or not other["difference"]], [])
        self.assertEqual(len({choice["difference"] for choice in page["choices"]}), len(page["choices"]))
        for choice in page["choices"]:
            self.assertEqual(choice["fits"],
                             choice["arena_bytes"] + plan["memory"]["process_bytes"] <= plan["memory"]["budget_bytes"])
            beaten = any(
                other["step_seconds"] <= choice["step_seconds"] and other["arena_bytes"] <= choice["arena_bytes"] and
                (other["step_seconds"], other["arena_bytes"]) != (choice["step_seconds"], choice["arena_bytes"])
                for other in page["choices"])
            self.assertEqual(choice["front"], not beaten, choice)

    def test_numbers_are_those_of_the_plan(self):
        page = self.check_numbers(LARGE)
        asked = [item["asks"] for item in page["summary"]]
        self.assertEqual([[word in text for word in ("memory", "step", "key")] for text in asked],
                         [[True, False, False], [False, True, False], [False, False, True]], asked)
        self.assertGreater(len(page["choices"]), 20)
        rates = page["rate"]
        steps = self.plan(LARGE)["length"]["steps"]
        self.assertEqual((rates[0][0], rates[-1][0], page["plan"]["length"]["steps"]), (1, steps, steps))
        self.assertEqual([step for step, _ in rates], sorted({step for step, _ in rates}))
        self.assertAlmostEqual(max(rate for _, rate in rates), 3e-4, delta=3e-6)
        self.assertAlmostEqual(rates[-1][1], 3e-5, delta=1e-9)
        # A choice on the page equals the plan of that spec.
        other = next(choice for choice in page["choices"] if choice["difference"] == "batch.micro_batch: 8")
        plan = self.plan(LARGE, "batch.micro_batch=8")
        self.assertEqual((other["step_seconds"], other["arena_bytes"]),
                         (plan["step_seconds"], plan["memory"]["arena_bytes"]))
        self.assertIn("batch.micro_batch: 4", page["summary"][2]["says"])

    def test_ranks_mixed_layers_and_the_cpu(self):
        page = self.check_numbers(LARGE, "--world", 8, "batch.micro_batch=16", "batch.tokens=262144",
                                  "parallel.shard=parameters")
        self.assertTrue(any(span["does"] == "send" for part in page["streams"]["passes"] for span in part["spans"]))
        self.assertGreaterEqual({choice["shard"]
                                 for choice in page["choices"]}, {"none", "optimizer", "gradients", "parameters"})
        beyond = self.check_numbers(LARGE, "memory.budget=40GiB", "memory.recompute=auto")
        (budget, ) = re.findall(r"With memory.budget: (\w+), ", beyond["summary"][2]["says"])
        self.assertGreaterEqual(
            int(budget.removesuffix("GiB")) * 2**30,
            min(choice["arena_bytes"] for choice in beyond["choices"] if not choice["fits"]))
        self.check_numbers(harness.write_small(self.path("small")))

    def test_the_picture_in_the_readme_is_of_this_page(self):
        self.made(LARGE)
        drawn, kept = self.path("plan.svg"), os.path.join(SOURCE, "docs", "plan.svg")
        subprocess.run(
            [sys.executable, os.path.join(SOURCE, "docs", "picture.py"),
             self.path("page.html"), drawn], check=True)
        if os.environ.get("LLMC_UPDATE_GOLDEN") == "1":
            shutil.copyfile(drawn, kept)
        with open(drawn, encoding="utf-8") as new, open(kept, encoding="utf-8") as old:
            self.assertEqual(new.read(), old.read(), "docs/plan.svg: LLMC_UPDATE_GOLDEN=1 writes it")

    def test_strings_of_specs_are_text_alone(self):
        hostile = "</script><script>alert(1)</script><!--<script> ' \" & `${1}`"
        plain, other = self.made(LARGE), self.made(LARGE, "data.tokenizer=" + json.dumps(hostile),
                                                   "sampling.prompts=" + json.dumps([hostile]))
        self.assertEqual(plain.elements, other.elements)
        self.assertEqual([text for _, name, text in plain.texts if name != "data"],
                         [text for _, name, text in other.texts if name != "data"])

    def test_needs_nothing_else(self):
        page = self.made(LARGE)
        for tag, attributes in page.elements:
            self.assertFalse({"src", "href", "srcset", "action", "background"} & set(attributes), (tag, attributes))
            self.assertFalse([name for name in attributes if name.startswith("on")], (tag, attributes))
        self.assertNotRegex("".join(text for tag, _, text in page.texts if tag == "style"), r"@import|url\(")
        own = "".join([text for tag, name, text in page.texts if tag == "script" and name != "data"][1:])
        self.assertNotRegex(own, r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|new Function")
        ids = {attributes["id"] for _, attributes in page.elements if "id" in attributes}
        self.assertEqual(set(re.findall(r'byId\("([^"]+)"\)', own)) - ids, set())

    def test_refusals(self):
        for words, said in (([self.path("none", "page.html")], "mkdir -p"), ([self.path("never.html"),
                                                                              "--json"], "--json"),
                            ([self.path("never.html"),
                              "--pin"], "--pin"), ([self.path("never.html"),
                                                    LARGE], "second spec"), ([SOURCE], "is a folder")):
            done = harness.call(LLMC, "plan", LARGE, "--html", *words)
            self.assertEqual((done.code, done.out), (2, ""), done.err)
            self.assertIn(said, done.err)
        self.assertFalse(os.path.exists(self.path("never.html")))

    @unittest.skipUnless(CHROMIUM, "no Chromium here")
    def test_a_browser_draws_it(self):
        """At the width of a phone, a tablet and a screen: nothing is wider than the window, and every chart has
        curves."""
        for words in ((LARGE, "--world", 8, "batch.tokens=262144"), (harness.write_small(self.path("small")), )):
            self.made(*words)
            with open(self.path("page.html"), encoding="utf-8") as file:
                text = file.read().replace("<head>", CATCH, 1)
            with open(self.path("probe.html"), "w", encoding="utf-8") as file:
                file.write(PROBE.join(text.rsplit("</body>", 1)))
            for width in (500, 900, 1400):
                done = subprocess.run([
                    CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=4000", "--dump-dom",
                    "--user-data-dir=" + self.path(f"profile-{width}"), f"--window-size={width},1000",
                    "file://" + self.path("probe.html")
                ], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=harness.HANGS)
                found = json.loads(re.search(r"<title>(.*?)</title>", done.stdout.decode(), re.DOTALL).group(1))
                self.assertEqual(found["errors"], [])
                self.assertEqual(found["window"], width)
                self.assertLessEqual(found["width"], width)
                self.assertEqual(len(found["charts"]), 4)
                self.assertTrue(all(0 < chart <= width for chart in found["charts"]), found["charts"])
                self.assertTrue(all(colours > 10 for colours in found["ink"]), found["ink"])
                self.assertEqual(len([figure for figure in found["figures"] if figure]), 5)


if __name__ == "__main__":
    harness.main()

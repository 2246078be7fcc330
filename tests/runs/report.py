"""`llmc report`: the page's numbers are those of the run folders, and no text of a run becomes markup."""

import html.parser
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import unittest

import harness
from harness import LLMC, SOURCE, RunTest

NODE = shutil.which("node")

HOSTILE = "</script><script>alert(1)</script><!--<script> ]]> \u2028 \\u003c & \" ' `${1}`"
FOLDER = "a <b>&\"'x"  # name of a run


class Page(html.parser.HTMLParser):
    """Elements with their attributes, and the text of each script and style."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.elements, self.texts, self.inside = [], [], None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag in ("script", "style"):
            self.inside = (tag, dict(attributes).get("id"))
            self.texts.append([*self.inside, ""])

    def handle_endtag(self, tag):
        if self.inside and tag == self.inside[0]:
            self.inside = None

    def handle_data(self, data):
        if self.inside:
            self.texts[-1][2] += data

    def count(self, tag):
        return sum(name == tag for name, _ in self.elements)

    def data(self):
        return json.loads(next(text for tag, name, text in self.texts if name == "data"))


class Scripts(unittest.TestCase):
    """Of all pages, without a browser."""

    TOOLS = pathlib.Path(SOURCE, "compiler", "tools")

    def test_axes_format_their_numbers(self):
        """uPlot's own format has three decimals: all learning rates would be 0."""
        found = 0
        for path in self.TOOLS.glob("*/page/*.js"):
            text = path.read_text()
            found += text.count("ruler({")
            self.assertEqual(text.count("ruler({"), text.count(" values: ("), path)
        self.assertGreater(found, 10)

    @unittest.skipUnless(NODE, "no Node.js here")
    def test_numbers(self):
        text = (self.TOOLS / "page" / "files" / "numbers.js").read_text() + (self.TOOLS / "runs" / "page" /
                                                                             "charts.js").read_text()

        def values(*expressions):
            done = subprocess.run([NODE, "-e", f"{text}\nconsole.log(JSON.stringify([{','.join(expressions)}]))"],
                                  check=True, capture_output=True)
            return json.loads(done.stdout)

        self.assertEqual(
            values("bytes(512)", "bytes(1.5 * 2 ** 40)", "bytes(null)", "shortNumber(3e-4)", "shortNumber(0)",
                   "duration(59.6)", "duration(90061)", "lossText(-1e-9)"),
            ["512 bytes", "1.50 TiB", None, "3e-4", "0", "59.6s", "1d 1h", "-1.00e-9"])
        # Digits enough to tell the lines of an axis apart, also after a drag over a small part.
        self.assertEqual(
            values("tickTexts([3.25, 3.2502, null, 3.2504])", "tickTexts([0, 1e-4, 2.5e-4])",
                   "tickTexts([123450, 123500])"),
            [["3.25", "3.2502", "", "3.2504"], ["0", "1e-4", "2.5e-4"], ["123.45K", "123.5K"]])
        # Values not above zero are left out of logarithmic axes, which losses and norms alone have.
        placed = "Chart.prototype.placed.call({{ view: {{ log: {} }}, kind: {{ spiky: {} }}, log: Chart.prototype.log }}, [-1, 0, 2, null])"
        self.assertEqual(
            values(*(placed.format(*each) for each in (("true", "true"), ("true", "false"), ("false", "true")))),
            [[None, None, 2, None], [-1, 0, 2, None], [-1, 0, 2, None]])


class Report(RunTest):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.trainer = cls.compile(harness.write_small(cls.folder), "trainer")
        cls.runs = os.path.join(cls.folder, "runs")
        words = ("schedule.steps=120", "checkpoint.every=20",
                 "data.validation.web=" + os.path.join(cls.folder, "train-*.bin"))
        for name, lr, stop in (("first", "1e-2", 50), (FOLDER, "3e-3", 70)):
            run = os.path.join(cls.runs, name)
            for more in ((f"optimizer.lr={lr}", *words, "--steps", stop), ()):
                done = harness.call(cls.trainer, "--run", run, *more)
                assert done.code == 0, done.err
        cls.page = cls.made(cls.runs)

    @classmethod
    def made(cls, *words):
        out = os.path.join(cls.folder, "page.html")
        done = harness.call(LLMC, "report", *words, "-o", out)
        assert done.code == 0, done.err
        with open(out, encoding="utf-8") as file:
            text = file.read()
        return Page(text)

    def run_of(self, page, name):
        return next(run for run in page.data()["runs"] if run["name"] == name)

    def metrics(self, *names):
        return harness.json_lines(os.path.join(self.runs, *names, "metrics.jsonl"))

    def test_numbers_are_those_of_the_runs(self):
        self.assertEqual([run["name"] for run in self.page.data()["runs"]], [FOLDER, "first"])
        for name in ("first", FOLDER):
            run, lines = self.run_of(self.page, name), self.metrics(name)
            self.assertEqual(run["lines_of_run"], 120)
            every_step = {
                key
                for key in lines[0] if all(isinstance(line.get(key, "none"), (int, float)) for line in lines)
            } - {"memory", "resident", "total_seconds"}
            self.assertGreaterEqual(
                every_step, {
                    "loss", "lr", "grad_norm", "top1", "lse_mean", "lse_max", "entropy", "ignored", "data_wait",
                    "epochs", "product_share"
                })
            self.assertEqual(set(run["lines"]), every_step | {"time"})
            for key in every_step:
                self.assertEqual(run["lines"][key], [line[key] for line in lines], key)
            some = {key for line in lines for key in line} - every_step - {"per_parameter", "total_seconds"}
            self.assertGreaterEqual(
                some, {
                    "val_loss", "val_top1", "val_loss/web", "val_top1/web", "evaluation_seconds", "saving_seconds",
                    "memory", "resident"
                })
            self.assertEqual(set(run["sometimes"]), some | {"ratio_median", "ratio_largest"})
            for key in some:
                with_it = [line for line in lines if key in line]
                self.assertEqual(run["sometimes"][key],
                                 {"step": [line["step"] for line in with_it], "value": [line[key] for line in with_it]},
                                 key)
            ratios = [
                sorted(norms["ratio"] for norms in line["per_parameter"].values() if norms["ratio"] is not None)
                for line in lines
            ]
            self.assertEqual(run["sometimes"]["ratio_median"]["value"], [statistics.median(ratio) for ratio in ratios])
            self.assertEqual(run["sometimes"]["ratio_largest"]["value"], [ratio[-1] for ratio in ratios])
            self.assertEqual(run["samples"], harness.json_lines(os.path.join(self.runs, name, "samples.jsonl")))
            starts = harness.json_lines(os.path.join(self.runs, name, "history.jsonl"))
            self.assertEqual(run["starts"], starts)
            second = starts[1]["step"]
            before = lines[second - 1]["seconds"]
            self.assertEqual(run["lines"]["time"],
                             [line["seconds"] + (before if line["step"] > second else 0) for line in lines])
            self.assertEqual(run["state"], "finished")
            with open(os.path.join(self.runs, name, "plan.json")) as file:
                plan = json.load(file)
            self.assertEqual(run["plan"]["memory"]["arena_bytes"], plan["memory"]["arena_bytes"])
            self.assertEqual(run["plan"]["memory"]["sections"], plan["memory"]["sections"])
            self.assertEqual(starts[1]["memory"], plan["memory"]["arena_bytes"], "allocated as planned")
        self.assertEqual(self.page.data()["keys"], [{"key": "optimizer.lr", "values": ["0.003", "0.01"]}])

    def test_metrics_have_charts(self):
        page = harness.read(os.path.join(SOURCE, "docs", "reference", "run-folder.md")).decode()
        rows = re.findall(r"^\| (`[^|]*) \|", page.split("## Metrics")[1].split("## TensorBoard")[0], re.MULTILINE)
        keys = {key for row in rows for key in re.findall(r"`(\w+)[`/]", row)}
        self.assertGreater(len(keys), 30)
        charts = harness.read(os.path.join(SOURCE, "compiler", "tools", "runs", "page", "charts.js")).decode()
        drawn = {key for key in keys if f'"{key}"' in charts}
        # Marks, norms of parameters, and values that follow from others.
        self.assertEqual(keys - drawn, {
            "epochs", "seconds", "total_seconds", "skipped", "skip_reason", "per_parameter", "loss_scale", "audit_loss"
        })

    def test_marks(self):
        spoiled = self.path("spoiled", "run")
        shutil.copytree(os.path.join(self.runs, "first"), spoiled)
        lines = harness.json_lines(os.path.join(spoiled, "metrics.jsonl"))
        for step in (60, 61):
            lines[step - 1].update(loss=None, grad_norm=None, skipped=[4, 2**40], skip_reason="not_finite")
        lines[79]["loss"] *= 1e12
        lines[89]["grad_norm"] *= 1e12
        with open(os.path.join(spoiled, "metrics.jsonl"), "w") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)
        clean, run = self.run_of(self.made(os.path.join(self.runs, "first")),
                                 "first"), self.run_of(self.made(spoiled), "run")
        self.assertEqual(run["skipped"],
                         [{"step": step, "samples": [4, 2**40], "reason": "not_finite"} for step in (60, 61)])
        self.assertEqual([run["lines"][key][59] for key in ("step", "loss", "grad_norm")], [60, None, None])
        for mark in ({"step": 80, "of": "loss"}, {"step": 90, "of": "grad_norm"}):
            self.assertIn(mark, run["outliers"])
            self.assertNotIn(mark, clean["outliers"])

    def test_strings_of_runs_are_text_alone(self):
        spoiled = self.path("hostile", HOSTILE.replace("/", "%"))
        shutil.copytree(os.path.join(self.runs, "first"), spoiled)
        with open(os.path.join(spoiled, "samples.jsonl"), "a") as file:
            file.write(json.dumps({"step": 120, "prompt": HOSTILE, "text": HOSTILE}) + "\n")
        with open(os.path.join(spoiled, "history.jsonl"), "a") as file:
            file.write(
                json.dumps({
                    "step": 100, "time": HOSTILE, "overrides": [HOSTILE], "device": HOSTILE, "changed":
                    {HOSTILE: [HOSTILE, 1]}
                }) + "\n")
        with open(os.path.join(spoiled, "plan.json"), "w") as file:
            json.dump(
                {
                    "target": {"kind": HOSTILE, "arch": [HOSTILE]}, "compute": HOSTILE, "memory":
                    {"sections": [{"name": HOSTILE, "bytes": 3}]}
                }, file)
        page = self.made(spoiled)
        self.assertEqual([element for element in page.elements if element[0] != "meta"],
                         [element for element in self.page.elements if element[0] != "meta"],
                         "the elements of any page")
        self.assertEqual((page.count("script"), page.count("style")), (6, 1))
        run = page.data()["runs"][0]
        self.assertEqual(run["name"], HOSTILE.replace("/", "%"))
        self.assertEqual(run["samples"][-1]["prompt"], HOSTILE)
        self.assertEqual(run["starts"][-1]["overrides"], [HOSTILE])
        self.assertEqual(run["plan"]["compute"], HOSTILE)
        # The other scripts do not depend on the runs.
        self.assertEqual([text for _, name, text in page.texts if name != "data"],
                         [text for _, name, text in self.page.texts if name != "data"])

    def test_needs_nothing_else(self):
        for tag, attributes in self.page.elements:
            self.assertFalse({"src", "href", "srcset", "action", "background"} & set(attributes), (tag, attributes))
            self.assertFalse([name for name in attributes if name.startswith("on")], (tag, attributes))
        policies = [
            attributes["content"] for tag, attributes in self.page.elements
            if attributes.get("http-equiv") == "Content-Security-Policy"
        ]
        self.assertEqual(policies, ["default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'"])
        styles = "".join(text for tag, _, text in self.page.texts if tag == "style")
        self.assertNotRegex(styles, r"@import|url\(")
        self.assertIn("prefers-color-scheme: dark", styles)
        scripts = [text for tag, name, text in self.page.texts if tag == "script" and name != "data"]
        folder = os.path.join(SOURCE, "third_party", "uplot")
        self.assertIn(harness.read(os.path.join(folder, "uPlot.iife.min.js")).decode(), scripts[0])
        self.assertIn(harness.read(os.path.join(folder, "LICENSE")).decode(), scripts[0])
        own = "".join(scripts[1:])
        self.assertNotRegex(own, r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|new Function")
        # All ids that the scripts look up exist.
        ids = {attributes["id"] for _, attributes in self.page.elements if "id" in attributes}
        wanted = set(re.findall(r'byId\("([^"]+)"\)', own))
        self.assertGreaterEqual(len(wanted), 8)
        self.assertEqual(wanted - ids, set())

    def test_long_runs_are_thinned(self):
        long = self.path("long", "run")
        shutil.copytree(os.path.join(self.runs, "first"), long)
        last = self.metrics("first")[-1]
        with open(os.path.join(long, "metrics.jsonl"), "a") as file:
            for step in range(121, 20001):
                line = dict(last, step=step, tokens=96 * step, loss=3 + step % 7 / 100, grad_norm=1 + step % 11 / 100,
                            seconds=step / 10.0)
                for key in [
                        key for key in line if key.startswith("val_") or key in ("evaluation_seconds", "per_parameter")
                ]:
                    line.pop(key)
                file.write(json.dumps(line) + "\n")
        run = self.run_of(self.made(long, "--points", 500), "run")
        steps = run["lines"]["step"]
        self.assertEqual(run["lines_of_run"], 20000)
        self.assertLess(len(steps), 700)
        self.assertEqual((steps[0], steps[-1]), (1, 20000))
        self.assertLessEqual(max(b - a for a, b in zip(steps, steps[1:])), 40)
        by_step = {line["step"]: line for line in harness.json_lines(os.path.join(long, "metrics.jsonl"))}
        for key in ("loss", "grad_norm", "tokens"):
            self.assertEqual(run["lines"][key], [by_step[step][key] for step in steps])
        self.assertEqual(run["sometimes"]["val_loss"]["step"],
                         [step for step, line in by_step.items() if "val_loss" in line])

    def test_what_cannot_be_read(self):
        for name, file, text in (("spec", "spec.yaml", b"\xff"), ("plan", "plan.json", b"["),
                                 ("metrics", "metrics.jsonl", b"[]\n{}\n")):
            shutil.copytree(os.path.join(self.runs, "first"), self.path("broken", name))
            with open(self.path("broken", name, file), "ab" if name == "metrics" else "wb") as out:
                out.write(text)
        done = self.succeed(LLMC, "report", self.path("broken"), os.path.join(self.runs, "first"),
                            self.path("broken", "plan"), "-o", self.path("broken.html"))
        self.assertIn("4 runs", done.out)
        for name, words in (("spec", "spec.yaml"), ("plan", "'plan.json' .*JSON object"),
                            ("metrics", "2 lines of 'metrics.jsonl' ")):
            self.assertRegex(done.err, rf"note: .*broken/{name}: .*{words}")
        with open(self.path("broken.html"), encoding="utf-8") as file:
            runs = {run["name"]: run for run in Page(file.read()).data()["runs"]}
        self.assertEqual(sorted(runs), ["broken/metrics", "broken/plan", "broken/spec", "runs/first"])
        self.assertEqual(runs["broken/metrics"]["lines"], runs["runs/first"]["lines"])
        self.assertIsNone(runs["broken/plan"]["plan"])
        self.assertIn("spec.yaml", runs["broken/spec"]["problem"])

    def test_refusals(self):
        for words, code, said in (([self.runs, "-o", self.path("page.txt")], 2, ".html"),
                                  ([self.runs, "-o",
                                    self.path("none",
                                              "page.html")], 2, "mkdir -p"), ([self.runs], 2, "--out is required"),
                                  ([self.path("nowhere"), "-o", self.path("x.html")], 6,
                                   "nowhere"), ([self.path("trainer"), "-o",
                                                 self.path("x.html")], 6,
                                                "no run in"), ([self.runs, "--points", "1", "-o",
                                                                self.path("x.html")], 2, "--points")):
            done = harness.call(LLMC, "report", *words)
            self.assertEqual((done.code, done.out), (code, ""), done.err)
            self.assertIn(said, done.err)
        self.assertFalse(os.path.exists(self.path("x.html")))


if __name__ == "__main__":
    harness.main()

"""docs/walkthrough.md against what llmc writes: every block that shows a spec, the graph, the plan or sources."""

import json
import os
import re

import harness
from harness import LLMC, SOURCE, RunTest

PAGE = os.path.join(SOURCE, "docs", "walkthrough.md")
UNSEEN = ("## 8. PTX", "## 9. CPU assembly")  # sections whose blocks are a compiler's


def blocks():
    """(section, text since the block before, language, lines) of each fenced block."""
    with open(PAGE) as file:
        parts = re.split(r"^```(\w*)\n(.*?)^```\n", file.read(), flags=re.MULTILINE | re.DOTALL)
    section = ""
    for before, language, body in zip(parts[::3], parts[1::3], parts[2::3]):
        section = (re.findall(r"^## .*$", before, re.MULTILINE) or [section])[-1]
        yield section, before, language, body.split("\n")[:-1]


def read(*path):
    with open(os.path.join(*path)) as file:
        return file.read()


class Walkthrough(RunTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.graphs = ""
        for name in ("llama-1b", "quickstart"):
            ir, spec = os.path.join(cls.folder, name + "-ir"), os.path.join(SOURCE, "specs", name + ".yaml")
            for words in (["-o", os.path.join(cls.folder, name), "--dump-ir", ir],
                          ["-o", os.path.join(cls.folder, name + "-include"), "--style=include"]):
                done = harness.call(LLMC, "emit", spec, *words)
                if done.code:
                    raise RuntimeError(done.err)
            cls.graphs += "".join(read(ir, file) for file in sorted(os.listdir(ir)))
        cls.plan = json.loads(read(cls.folder, "llama-1b", "plan.json"))

    def stands_in(self, lines, text, what):
        """The lines in this order, "..." for any others, without their indentation."""
        rest = [line.strip() for line in text.split("\n")]
        for line in lines:
            if line.strip() not in ("...", ""):
                self.assertIn(line.strip(), rest, f"{what} of the walk-through: not there, or not in this order")
                rest = rest[rest.index(line.strip()) + 1:]

    def source(self, before):
        """The file that the text before a block names last."""
        path = re.findall(r"`((?:templates|build)/[\w./-]+\.(?:cu|cpp))`", before)[-1]
        if path.startswith("templates/"):
            return read(SOURCE, path)
        _, run, rest = path.split("/", 2)
        return read(self.folder, run + ("-include" if "--style=include" in before else ""), rest)

    def test_its_blocks_are_what_llmc_writes(self):
        seen = {}
        for section, before, language, lines in blocks():
            if section in UNSEEN:
                continue
            with self.subTest(section=section, block=lines[0]):
                if language == "cpp":
                    self.stands_in(lines, self.source(before), section)
                elif language == "json":
                    shown = json.loads("\n".join(lines))
                    listed = self.plan["launches" if "region" in shown else "kernels"]
                    self.assertIn(shown, listed, section)
                elif language == "yaml":
                    def plain(text):
                        return re.sub(r" +#.*", "", text)
                    self.stands_in([plain(line) for line in lines], plain(read(SOURCE, "specs", "llama-1b.yaml")), section)
                elif "config specs/llama-1b.yaml" in before:
                    language = "config"
                    self.stands_in(lines, self.succeed(LLMC, "config", os.path.join(SOURCE, "specs", "llama-1b.yaml")).out, section)
                else:
                    language = "graph"
                    for line in lines:
                        pattern = ".*".join(re.escape(part) for part in re.sub(r"^[<> ] ", "", line).strip().split("..."))
                        self.assertRegex(self.graphs, re.compile("^ *" + pattern + "$", re.MULTILINE), section)
            seen[language] = seen.get(language, 0) + 1
        self.assertEqual(set(seen), {"cpp", "json", "yaml", "config", "graph"})
        self.assertGreaterEqual(sum(seen.values()), 15)


if __name__ == "__main__":
    harness.main()

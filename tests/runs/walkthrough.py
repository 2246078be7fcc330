"""Runs the commands of docs/explanation/walkthrough.md as written. Every block with a spec, the graph, the plan or
sources must equal llmc's output."""

import json
import os
import re

import harness
import pages
from harness import SOURCE, RunTest
from pages import read

PAGE = "docs/explanation/walkthrough.md"
UNSEEN = ("## 8. PTX", "## 9. CPU assembly")  # sections whose blocks are a compiler's
NOT_HERE = {
    "llmc plan specs/llama-1b.yaml --kernels": "nvcc takes minutes; run_kernels_nvcc makes the table of a small spec"
}


class Walkthrough(RunTest):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.tree = pages.Tree(os.path.join(cls.folder, "tree"))
        cls.output = {}
        for command in [command for command, _ in pages.commands(PAGE) if command not in NOT_HERE] + \
                ["llmc emit specs/llama-1b.yaml -o build/llama-1b-include --style=include"]:
            code, cls.output[command] = cls.tree.shell(command)
            if code:
                raise AssertionError(f"{command}\n{cls.output[command]}")
        graphs = [cls.tree.folder + "/build/" + name for name in ("llama-1b-ir", "quickstart-ir")]
        cls.graphs = "".join(read(folder, file) for folder in graphs for file in sorted(os.listdir(folder)))
        cls.plan = json.loads(read(cls.tree.folder, "build", "llama-1b", "plan.json"))

    def source(self, before):
        """Last file named in the text before a block."""
        path = re.findall(r"`((?:templates|build)/[\w./-]+\.(?:cu|cpp))`", before)[-1]
        if path.startswith("templates/"):
            return read(SOURCE, path)
        return read(self.tree.folder,
                    path.replace("/llama-1b/", "/llama-1b-include/") if "--style=include" in before else path)

    def test_its_blocks_are_what_llmc_writes(self):
        seen = {}
        for section, before, language, lines in pages.blocks(PAGE):
            if section in UNSEEN:
                continue
            with self.subTest(section=section, block=lines[0]):
                if language == "cpp":
                    pages.stands_in(self, lines, self.source(before), section)
                elif language == "json":
                    shown = json.loads("\n".join(lines))
                    listed = self.plan["launches" if "region" in shown else "kernels"]
                    self.assertIn(shown, listed, section)
                elif language == "yaml":

                    def plain(text):
                        return re.sub(r" +#.*", "", text)

                    pages.stands_in(self, [plain(line) for line in lines], plain(read(SOURCE, "specs",
                                                                                      "llama-1b.yaml")), section)
                elif "config specs/llama-1b.yaml" in before:
                    language = "config"
                    pages.stands_in(self, lines, self.output["llmc config specs/llama-1b.yaml"], section)
                else:
                    language = "graph"
                    for line in lines:
                        pattern = ".*".join(
                            re.escape(part) for part in re.sub(r"^[<> ] ", "", line).strip().split("..."))
                        self.assertRegex(self.graphs, re.compile("^ *" + pattern + "$", re.MULTILINE), section)
            seen[language] = seen.get(language, 0) + 1
        self.assertEqual(set(seen), {"cpp", "json", "yaml", "config", "graph"})
        self.assertGreaterEqual(sum(seen.values()), 15)


if __name__ == "__main__":
    harness.main()

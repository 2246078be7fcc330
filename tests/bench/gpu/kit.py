"""Shared by the parts: programs, limits, and results that survive failures of a part."""

import hashlib
import json
import os
import time

import build
import bundles
import card
import parts
import process
import steps


def write(path, text):
    """Writes a file completely or not at all."""
    part = path.with_name(path.name + ".part")
    part.write_text(text)
    part.replace(path)


def identity(folder):
    """Identity of an unpacked archive's bundles."""
    total = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            total.update(str(path.relative_to(folder)).encode() + b"\0" + path.read_bytes())
    return total.hexdigest()


class Kit:
    """`sizes`: amount of measurement; `results`: part -> its figures, kept in `work`/results."""

    def __init__(self, root, work, simulate, out):
        self.simulated, self.work, self.out = simulate is not None, work, out
        self.made = bundles.Made(root / "bundles")
        self.table = [row for row in bundles.BUNDLES if row.name in self.made.refusals]
        self.sizes = steps.TINY if self.simulated else steps.FULL
        self.machine = build.Simulated(self.made, work, simulate) if self.simulated else build.Gpu(
            self.made, work, self.call)
        self.programs = []  # built by the part build
        self.deadline = float("inf")
        self.part = self.card = None
        (work / "results").mkdir(exist_ok=True)
        self.results = {part.name: self.read(part.name) for part in parts.PARTS if self.file(part.name).exists()}

    def file(self, name):
        return self.work / "results" / f"{name}.json"

    def read(self, name):
        return json.loads(self.file(name).read_text())

    def keep(self, name, result):
        write(self.file(name), json.dumps(result, indent=1) + "\n")
        self.results[name] = result

    def done(self, name):
        return "seconds" in self.results.get(name, {}) and "failed" not in self.results[name]

    # For the parts' functions, which run in separate processes.

    def call(self, *words, environment=None, **more):
        """Output of a command that must succeed before the part's deadline; process.Failed otherwise."""
        environment = {**(environment or self.machine.environment), **more}
        return process.run(words, environment, self.deadline - time.monotonic())

    def need(self, bundle, program):
        if self.made.refusal(bundle):
            raise process.Absent(self.made.refusal(bundle))
        if not self.machine.program(bundle, program).exists():
            raise RuntimeError(f"{bundle}/{program} was not built")

    def of_card(self, begin, end):
        """The card's figures between two times; empty if it cannot be read."""
        figures = self.card.figures(begin, end)
        return {"card": figures} if figures else {}

    def json_lines(self, text):
        """Output lines of one of the kit's programs, each with the card between its own `begin` and `end`
        (steady_clock is monotonic())."""
        rows = [json.loads(line) for line in text.splitlines()]
        return [{**row, **(self.of_card(row["begin"], row["end"]) if "begin" in row else {})} for row in rows]

    def rows(self, result, functions):
        """result[name] = function() for every name without figures; each is stored at once. A failure is stored as its
        message, the next one runs, and at the end the part has failed."""
        for name, function in functions.items():
            if name in result and "failed" not in result[name]:
                continue
            begin = time.monotonic()
            try:
                result[name] = function()
            except process.Absent as error:
                result[name] = {"absent": str(error)}
            except Exception as error:  # any error becomes the row's result
                result[name] = {"failed": f"{type(error).__name__}: {error}"}
            result[name]["took"] = time.monotonic() - begin
            result[name].update(self.of_card(begin, time.monotonic()))
            self.keep(self.part, result)
        failed = [f"{name}: {result[name]['failed'][-200:]}" for name in functions if "failed" in result[name]]
        if failed:
            raise RuntimeError("; ".join(failed))

    # For the command.

    def run(self, part, limit):
        """Runs one part in a separate process. Stored results stay whatever happens to it."""
        # Rows measured by an earlier command.
        before = {name: value for name, value in self.results.get(part.name, {}).items() if isinstance(value, dict)}
        begin = time.monotonic()
        self.keep(part.name, {**before, "begun": True})

        def function():
            result, self.part, self.deadline = dict(before), part.name, begin + limit - 2
            self.card = card.Watch()
            try:
                part.function(self, result)
            except (Exception, SystemExit) as error:
                result["failed"] = f"{type(error).__name__}: {error}"
            self.card.finish()
            result["seconds"] = time.monotonic() - begin
            self.keep(part.name, result)

        happened = process.apart(function, limit)
        result = self.read(part.name)
        result.pop("begun", None)
        if happened:
            result["failed"] = f"{happened}; {result['failed']}" if "failed" in result else happened
        self.keep(part.name, {**result, "seconds": time.monotonic() - begin})


def executable_folder(candidates, needed):
    """First folder of `candidates` that allows executing programs and has `needed` bytes free; None if there is none.
    """
    for folder in candidates:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            probe = folder / f".llmc-kit-{os.getpid()}"
            probe.write_text("#!/bin/sh\nexit 0\n")
            probe.chmod(0o755)
            try:
                process.run([probe], dict(os.environ), 10)
            finally:
                probe.unlink()
            place = os.statvfs(folder)
            if place.f_bavail * place.f_frsize >= needed:
                return folder
        except (OSError, process.Failed):
            continue
    return None

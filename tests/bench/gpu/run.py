#!/usr/bin/env python3
"""Measures an emitted trainer and PyTorch on this machine's GPU, without llmc: see README.md."""

import argparse
import datetime
import fcntl
import json
import pathlib
import shutil
import signal
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path[:0] = [str(HERE), str(HERE.parent), str(ROOT / "tests" / "runs")]
import kit as kits  # noqa: E402
import machine  # noqa: E402
import process  # noqa: E402
import raw  # noqa: E402
import report  # noqa: E402
from parts import PARTS, programs  # noqa: E402

# Seconds of the command's time after the last part: stopping its processes (process.py waits ten) and the last page.
ENDING = 12
ROOM, ROOM_SIMULATED = 4 << 30, 256 << 20  # bytes that builds, data and torch.compile's cache take at most


def limits(words, parser):
    """--limit PART=SECONDS."""
    found = {part.name: part.limit for part in PARTS}
    for word in words:
        name, _, seconds = word.partition("=")
        if name not in found or not seconds.isdecimal():
            parser.error(f"--limit {word}: write PART=SECONDS, with a part of {', '.join(found)}")
        found[name] = int(seconds)
    return found


def write_report(kit, out, described, begin):
    plan = kit.made.plan()
    kept = {
        key: plan[key]
        for key in ("name", "fingerprint", "parameters", "batch", "flops", "memory", "launches", "kernels", "products")
    }
    plans = {
        name: {key: kit.made.plan(name)[key]
               for key in ("kernels", "products")}
        for name in ("fp8_full", ) if kit.made.has(name)
    }
    result = {
        "simulated": kit.simulated, "machine": described, "seconds": time.monotonic() - begin, "plan": kept, "plans":
        plans, "model": kit.made.model(), "bundles": {row.name: row.what
                                                      for row in kit.table}, "results": kit.results
    }
    kits.write(out / "gpu.json", json.dumps(result, indent=1) + "\n")
    kits.write(out / "results.jsonl", "".join(json.dumps(row) + "\n" for row in raw.rows(result)))
    text = report.markdown(result)
    kits.write(out / "gpu.md", text + "\n")
    return text


def check_work(work, described, simulated):
    """A work folder belongs to one kit on one machine."""
    identity = {"kit": kits.identity(ROOT / "bundles"), "gpu": described.get("gpu"), "simulated": simulated}
    path = work / "kit.json"
    if path.exists():
        before = json.loads(path.read_text())
        for key, value in identity.items():
            if before[key] != value and None not in (before[key], value):
                raise SystemExit(
                    f"{work} has results of another {key} ({before[key]}, now {value}): give another --work")
            identity[key] = before[key] if value is None else value  # a probe may fail once
    kits.write(path, json.dumps(identity) + "\n")


def order(kit, wanted):
    """Order of the parts to run: the build if a program is missing, then those that never ran, then those that failed
    before."""
    build, *others = PARTS
    todo = [part for part in wanted if part is not build and not kit.done(part.name)]
    asked = todo if todo or build not in wanted else others
    kit.programs = list(dict.fromkeys(each for part in asked for each in programs(part, kit.made)))
    todo.sort(key=lambda part: part.name in kit.results)
    return ([build] if kit.machine.missing(kit.programs) else []) + todo


def measure(kit, a, described, limit_of, begin):
    end = begin + 60 * a.minutes - ENDING
    wanted = [part for part in PARTS if not a.only or part.name in a.only]
    for part in order(kit, wanted):
        left = end - time.monotonic()
        if left < min(1 if kit.simulated else part.expected, limit_of[part.name]):
            print(f"{part.name}: not begun, {left:.0f} s are left; the next command with this --work begins it",
                  file=sys.stderr)
            continue
        print(part.name, file=sys.stderr, flush=True)
        kit.run(part, min(limit_of[part.name], left))
        if "failed" in kit.results[part.name]:
            print(f"{part.name} failed: {kit.results[part.name]['failed'][-400:]}", file=sys.stderr)
        write_report(kit, a.out, described, begin)
    print(write_report(kit, a.out, described, begin))
    return 0 if all(kit.done(part.name)
                    for part in wanted if part.name != "build") and "failed" not in kit.results.get("build", {}) else 1


def main():
    begin = time.monotonic()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=pathlib.Path,
                        help="folder for gpu.json, gpu.md and results.jsonl, written after every part")
    parser.add_argument(
        "--work", type=pathlib.Path,
        help="folder for builds and results; a second command goes on where the first ended (else one that is removed)")
    parser.add_argument("--minutes", type=float, default=9.0, help="time for this command (9)")
    parser.add_argument("--only", nargs="+", choices=[part.name for part in PARTS],
                        help="these parts, and what they need of the build")
    parser.add_argument("--limit", nargs="+", default=[], metavar="PART=SECONDS", help="another time limit of a part")
    parser.add_argument("--look", action="store_true",
                        help="say within 30 seconds what this machine has, and what would run")
    parser.add_argument("--simulate", type=pathlib.Path, metavar="BUILD/tests/sim",
                        help="on llmc's simulated GPU: tiny sizes, and times that mean nothing")
    a = parser.parse_args()
    limit_of = limits(a.limit, parser)
    process.adopt_orphans()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the running program is stopped
    temporary = [pathlib.Path(tempfile.gettempdir()), pathlib.Path("/var/tmp"), pathlib.Path.cwd()]
    if a.look:
        print(machine.look(ROOT, a.work or temporary[0]))
        return 0
    if not a.out:
        parser.error("--out is needed, or --look")
    described = {
        **machine.describe(), "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    }
    a.out.mkdir(parents=True, exist_ok=True)
    room = ROOM_SIMULATED if a.simulate else ROOM
    parent = kits.executable_folder([a.work] if a.work else temporary, room)
    if not parent:
        parser.error(f"no folder where programs may be executed and {room >> 20} MiB are free, of "
                     f"{', '.join(map(str, [a.work] if a.work else temporary))}: give another --work")
    work = parent.resolve() if a.work else pathlib.Path(tempfile.mkdtemp(prefix="llmc-kit-", dir=parent))
    try:
        with (work / "lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise SystemExit(f"another command uses {work}") from None
            check_work(work, described, a.simulate is not None)
            return measure(kits.Kit(ROOT, work, a.simulate, a.out), a, described, limit_of, begin)
    finally:
        process.stop_descendants()
        if not a.work:
            shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())

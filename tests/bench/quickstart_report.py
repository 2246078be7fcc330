"""The benchmark's figures and the machine's description, as data and as Markdown."""

import datetime
import os
import platform
import re
import statistics
import subprocess

GOAL = 2.5  # bf16 on a processor with AMX: times the better of PyTorch's two
SHARES = {"fp32": 0.90, "bf16": 0.88}  # elsewhere: of the rate that the GEMMs alone would reach
NAMES = {"ours": "llmc", "eager": "PyTorch eager", "compile": "torch.compile"}


def machine(a):
    with open("/proc/cpuinfo") as file:
        text = file.read()
    model = re.search(r"model name\s*: (.*)", text)
    flags = set((re.search(r"flags\s*: (.*)", text) or ["", ""])[1].split())
    compiler = subprocess.run([os.environ.get("CXX", "g++"), "--version"], capture_output=True, text=True).stdout
    package = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", "libdnnl-dev"], capture_output=True,
                             text=True).stdout
    commit = subprocess.run(["git", "-C", os.path.dirname(__file__), "describe", "--always", "--dirty"],
                            capture_output=True, text=True).stdout.strip()
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"), "processor":
        model[1] if model else platform.machine(), "threads": a.threads, "flags":
        [name for name in ("avx2", "avx512f", "avx512_bf16", "amx_bf16")
         if name in flags], "steps": a.steps, "warmup": a.warmup, "rounds": a.rounds, "matmul": a.matmul, "clock":
        "processor seconds" if a.cpu_time else "wall", "versions": {
            "llmc": commit, "python": platform.python_version(), "oneDNN": package or "unknown", "compiler":
            compiler.splitlines()[0] if compiler else "unknown"
        }
    }


def summarise(result):
    """Adds medians over all steps of all rounds, ratios and start-up."""
    tokens = result["tokens_per_step"]
    result["summary"] = {}
    for dtype in result["step"]:
        rows = {}
        for side in dict.fromkeys(run["side"] for run in result["runs"]):
            runs = [run for run in result["runs"] if (run["dtype"], run["side"]) == (dtype, side)]
            step = statistics.median(s for run in runs for s in run["seconds"])
            rows[side] = {
                "ms": 1e3 * step, "tokens_per_second": tokens / step, "rounds":
                [tokens / statistics.median(run["seconds"]) for run in runs], "start_up_seconds":
                statistics.median(r["first_step_end"] - statistics.median(r["seconds"]) for r in runs)
            }
        cold = result["cold"].get(dtype)
        if cold:
            rows["compile"]["cold_start_up_seconds"] = (cold["seconds_to_first_step"] -
                                                        statistics.median(cold["steps"][result["warmup"]:]))
        step = result["step"][dtype]
        # From the run in which whole steps and GEMMs alone alternated: rates vary more between two runs.
        summary = {
            "sides": rows, "products_share": step["products_ms"] / step["step_ms"], "products_only_tokens_per_second":
            1e3 * tokens / step["products_alone_ms"], "ceiling_share": step["products_alone_ms"] / step["step_ms"]
        }
        others = [rows[side]["tokens_per_second"] for side in rows if side != "ours"]
        if "ours" in rows and others:
            summary["ratio"] = rows["ours"]["tokens_per_second"] / max(others)
            summary["ceiling_ratio"] = summary["ratio"] / summary["ceiling_share"]
        result["summary"][dtype] = summary


def table(header, rows):
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def comparison(result):
    rows = []
    for dtype, summary in result["summary"].items():
        for side, row in summary["sides"].items():
            low, high = min(row["rounds"]), max(row["rounds"])
            start = f"{row['start_up_seconds']:.2f} s"
            if result["clock"] != "wall":
                start = "wall only"  # a start minus a step needs both in wall-clock seconds
            elif "cold_start_up_seconds" in row:
                start = f"{row['cold_start_up_seconds']:.1f} s cold, {start} warm"
            rows.append([
                dtype, NAMES[side], f"{row['ms']:.1f}", f"{row['tokens_per_second']:,.0f}",
                f"{low:,.0f} to {high:,.0f}", start
            ])
        rows.append([
            dtype, "matrix products alone", f"{result['step'][dtype]['products_alone_ms']:.1f}",
            f"{summary['products_only_tokens_per_second']:,.0f}", "", ""
        ])
    return table(["dtype", "what", "ms a step", "tokens/s", "rounds", "start-up"], rows)


def markdown(result):
    loads = [run["load"] for run in result["runs"]]
    busy = ""
    if max(loads) > result["threads"] + 1 and result["clock"] == "wall":  # the runs' own load is `threads`
        busy = " **Others used the machine: these are no figures to keep (--cpu-time bears it better).**"
    split = " llmc's matrix products are bf16x3." if result["matmul"] == "bf16x3" else ""
    versions = ", ".join(f"{name} {value}" for name, value in result["versions"].items() if value)
    parts = [
        "# Quick start on the CPU",
        f"{result['processor']} ({', '.join(result['flags'])}), threads: {result['threads']}, {result['date']}. {versions}.\n"
        f"{result['rounds']} rounds of {result['steps']} steps after {result['warmup']}, {result['tokens_per_step']} tokens "
        f"a step, {result['clock']}; medians.{split} "
        f"Load of the machine when a run began: {min(loads):.1f} to {max(loads):.1f}.{busy}",
        comparison(result)
    ]
    for dtype, summary in result["summary"].items():
        step, check = result["step"][dtype], result["check"][dtype]
        text = ""
        in_tiles = (dtype == "bf16" or result["matmul"] == "bf16x3") and "amx_bf16" in result["flags"]
        goal = f" (goal {GOAL})" if in_tiles and dtype == "bf16" else ""
        if "ratio" in summary:
            text = (f"{summary['ratio']:.2f} times the better of PyTorch's two{goal}; its matrix "
                    f"products alone would be {summary['ceiling_ratio']:.2f} times. ")
        if "ceiling_share" in summary:
            text += (f"That is {summary['ceiling_share']:.0%} of this ceiling"
                     f"{'' if in_tiles else f' (goal {SHARES[dtype]:.0%})'}. ")
        text += (f"Matrix products are {summary['products_share']:.0%} of our step. "
                 f"Same weights, same tokens: losses of {len(check['ours'])} steps from {check['ours'][0]:.4f} to "
                 f"{check['ours'][-1]:.4f}, PyTorch's differ by {check['worst_relative_difference']:.1e} at most.")
        rows = [[
            name, "product" if piece["product"] else "kernel",
            str(piece["calls"]), f"{piece['ms']:.2f}", f"{piece['ms'] / step['step_ms']:.1%}"
        ] for name, piece in step["pieces"].items()]
        parts += [f"## {dtype}", text, table(["piece of our step", "", "calls", "ms a step", "share"], rows)]
    return "\n\n".join(parts)

"""The kit's figures as Markdown, for any state of the parts."""

import floors
from figures import Figures, gib, line, table
from report_kernels import attention, calibration, heads, kernels, products, rates, table_of_bytes


def head(f):
    m, plan = f.result["machine"], f.plan
    text = "**Simulated: no time, rate or share on this page means anything.**\n\n" if f.result["simulated"] else ""
    return text + (
        f"{m.get('gpu') or 'no GPU'}; {m.get('date')}; {m.get('nvcc')}; cuBLASLt {m.get('cublasLt')}, "
        f"cuDNN {m.get('cudnn')}, NCCL {m.get('nccl')}; Python {m.get('python')}; spec {plan['fingerprint']}; "
        f"{f.result['seconds']:.0f} s of the last command.")


def parts(f):
    rows = []
    for name, part in f.parts.items():
        state = "FAILED" if "failed" in part else "absent" if "absent" in part else "done" if "seconds" in part else "CUT OFF"
        took = f"{part['seconds']:.0f} s" if "seconds" in part else ""
        rows.append([name, state, took, line(part.get("failed") or part.get("absent") or "")])
    return table(["part", "", "took", ""], rows)


def ceilings(f):
    r = f.parts.get("ceilings", {})
    if not (f.copy and f.gemm):
        return None
    rows = [[
        "copy on the device, GB/s read and written", f"{r['copy_gb_s']['burst']:,.0f}",
        f"{r['copy_gb_s']['sustained']:,.0f}"
    ]]
    rows += [[f"bf16 product {n} x {n} x {n}, TFLOP/s", f"{rates['burst']:,.1f}", f"{rates['sustained']:,.1f}"]
             for n, rates in r["gemm_tflop_s"].items()]
    return (table(["ceiling", "burst", f"over {r['sustained_seconds']:g} s"], rows) +
            f"\n\nShares take what is sustained: {f.copy:,.0f} GB/s and {f.gemm:,.1f} TFLOP/s.")


def our_row(f, title, s, host, of_run):
    rate = s["tokens"] / (s["ms"] / 1e3)
    flops = rate * s["flops_per_token"] / 1e12
    floor = f.floor(s["passes"]) if of_run else None
    c = s.get("card", {})
    return [
        title, f"{s['ms']:,.1f}", f"{rate:,.0f}", f"{flops / f.peak:.1%}" if f.peak else "",
        f"{flops / f.gemm:.1%}" if f.gemm else "", f"{floor:,.1f} ms: {floor / s['ms']:.1%}" if floor else "",
        f"{c['mhz']['median']:,.0f} MHz, {c['watts']['median']:,.0f} W" if c else "", f"{s['start_up_seconds']:.2f} s",
        f"arena {gib(s['arena_bytes'])} (plan {gib(s['plan_bytes'])}), in all {gib(s['device_bytes'])}",
        f"{host['ms']:.2f} ms" if "ms" in host else ""
    ]


def torch_rows(f):
    for name, t in f.torch().items():
        if "ms" not in t:
            yield [f"PyTorch {name}", line(t.get("failed") or t.get("absent") or ""), *[""] * 8]
            continue
        title = f"PyTorch {t['torch']} {name}, {t['batch']} x 1, attention {t['attention']}, residual {t['residual']}"
        if t["out_of_memory_at"]:
            title += f"; out of memory at {', '.join(map(str, t['out_of_memory_at']))}"
        length = f.plan["batch"]["sequence_length"]
        yield [
            title, f"{t['ms']:,.1f}", f"{1e3 * t['batch'] * length / t['ms']:,.0f}", *[""] * 4,
            f"{t['start_up_seconds']:.2f} s", f"reserved {gib(t['reserved_bytes'])}", ""
        ]
        if "accumulated" in t:
            passes, ms = t["accumulated"]["passes"], t["accumulated"]["ms"]
            yield [
                f"PyTorch {t['torch']} {name}, {t['batch']} x {passes}", f"{ms:,.1f}",
                f"{1e3 * t['batch'] * passes * length / ms:,.0f}", *[""] * 7
            ]


def compiled(f, passes):
    """torch.compile's fastest row at the run's micro-batch: (ms, row), or None."""
    rows = [
        row for name, row in f.torch().items()
        if name.startswith("compile") and "ms" in row and row["batch"] == f.plan["batch"]["micro_batch"]
    ]
    if passes > 1:
        rows = [row for row in rows if row.get("accumulated", {}).get("passes") == passes]
        return min(((row["accumulated"]["ms"], row) for row in rows), key=lambda each: each[0], default=None)
    return min(((row["ms"], row) for row in rows), key=lambda each: each[0], default=None)


def headline(f):
    """Our speed relative to the faster torch.compile, each with its residual stream's precision."""
    ours, text = "fp32" if floors.fp32_stream(f.plan) else "bf16", []
    rows = [("run", 1, ours), ("residual", 1, "bf16"), ("lean", 1, "bf16")]
    rows.append(("run, accumulated", f.steps().get("run, accumulated", {}).get("passes", 0), ours))
    for name, passes, stream in rows:
        s, other = f.steps().get(name, {}), compiled(f, passes)
        if "ms" not in s or not other:
            continue
        ms, t = other
        memory = f", arena {s['arena_bytes'] / t['reserved_bytes']:.2f} times its reserved memory" if t[
            "reserved_bytes"] else ""
        text.append(f"{name} (residual {stream}): **{ms / s['ms']:.2f} times** the speed of torch.compile "
                    f"(attention {t['attention']}, residual {t['residual']}){memory}.")
    return "\n\n".join(text)


def drift(f):
    """Change of the card from the first step to the last."""
    first, last = (f.parts.get("step", {}).get(name, {}).get("ms") for name in ("run", "run, at the end"))
    return f"The run at the end of the part against its begin: {last / first - 1:+.2%}, the card's drift." if first and last else ""


def step(f):
    r, rows = f.steps(), []
    for name, s in r.items():
        if not isinstance(s, dict) or name.startswith("host"):
            continue
        bundle, *more = name.split(", ")
        title = ", ".join(["llmc", f.result["bundles"][bundle], *(word for word in more if word == "at the end")])
        if "ms" in s:
            host = {"run": "host", "run, accumulated": "host, accumulated"}.get(name)
            rows.append(our_row(f, f"{title}, {s['micro_batch']} x {s['passes']}", s, r.get(host, {}), bundle == "run"))
        else:
            rows.append([title, line(s.get("failed") or s.get("absent") or ""), *[""] * 8])
    rows += torch_rows(f)
    if not rows:
        return None
    text = table([
        "step", "ms", "tokens/s", "MFU, data sheet", "MFU, best product", "floor, its share", "SM clock, power",
        "start less a step", "memory", "host in a step's launches"
    ], rows)
    return "\n\n".join(filter(None, [headline(f), text, drift(f)]))


def card_rows(part, figures):
    """(part, row, card figures), also of rows below a row's name."""
    if "card" in figures:
        yield part, "", figures["card"]
    for name, row in figures.items():
        if isinstance(row, dict) and name != "card":
            yield from ((part, f"{name} {below}".strip(), c) for _, below, c in card_rows(part, row))


def card(f):
    """Energy, clock, power and clock limits, of every row."""
    rows = []
    for part, name, c in (row for part, figures in f.parts.items() for row in card_rows(part, figures)):
        spreads = (f"{each['least']:,.0f}, {each['median']:,.0f}, {each['most']:,.0f}"
                   for each in (c["watts"], c["mhz"]))
        held = ", ".join(f"{what} {share:.0%}" for what, share in c["held"].items()) or "nothing"
        rows.append([part, name, f"{c['seconds']:.1f}", f"{c['joules']:,.0f}", *spreads, c["celsius"], held])
    return table([
        "part", "row", "s", "J", "W: least, median, most", "SM MHz: the same", "°C at most",
        "clock held by, of the samples"
    ], rows) if rows else None


def losses(f):
    """Means of a few steps, every fifty."""
    found = {name: row for name, row in f.parts.get("losses", {}).items() if isinstance(row, dict)}
    if not found:
        return None
    rows = []
    for name, row in found.items():
        each = row.get("losses", [])
        means = [sum(each[end - 10:end]) / 10 for end in range(50, len(each) + 1, 50)]
        said = f"{row['last']:.4f}" if "last" in row else line(row.get("failed") or row.get("absent") or "")
        above = f"{row['above_bf16']:+.4f}" if "above_bf16" in row else ""
        rows.append([f.result["bundles"][name], ", ".join(f"{mean:.3f}" for mean in means), said, above])
    return table(
        ["model of 27M parameters", "loss at every 50th step, mean of 10", "mean of the last 20", "above bf16"], rows)


def tests(f):
    r = f.parts.get("tests", {})
    return f"{r['ran']} ran, failed: {', '.join(r['failures']) or 'none'}." if "ran" in r else None


def correctness(f):
    said = {
        "gradients": lambda row: row["line"], "resumed": lambda row:
        f"the same run again, and one stopped half-way: {row['files']} files of {row['steps']} steps are equal",
        "twice": lambda row: f"losses and gradient norms of {row['steps']} steps are equal: {row['losses']}"
    }
    rows = [[name, line(row.get("failed") or row.get("absent") or said[name.split(",")[0]](row))]
            for name, row in f.parts.get("correctness", {}).items() if isinstance(row, dict)]
    return table(["what, of which bundle", ""], rows) if rows else None


def sanitizer(f):
    r = f.parts.get("sanitizer", {})
    rows = [
        f"{name}: {row.get('summary') or line(row.get('failed') or row.get('absent') or '')}"
        for name, row in r.items() if isinstance(row, dict)
    ]
    return "; ".join(rows) or r.get("absent")


def devices(f):
    part = f.parts.get("devices", {})
    texts = filter(None, [part.get("absent"), device_steps(part), collectives(part.get("collectives", {}))])
    return "\n\n".join(texts) or None


def device_steps(part):
    """Steps of all devices compared with one device's with as many micro-batches per rank."""
    rows = []
    for name in ("one", "all", "one, accumulated", "all, accumulated"):
        s, alone = part.get(name, {}), part.get(name.replace("all", "one"), {})
        if "ms" not in s:
            rows += [[name, line(s["failed"]), *[""] * 4]] if "failed" in s else []
            continue
        row = [
            f"{part['devices'] if s is not alone else 1} x {s['passes']}", f"{s['ms']:,.1f}",
            f"{1e3 * s['tokens'] / s['ms']:,.0f}"
        ]
        if s is not alone and "ms" in alone:
            exposed = s["ms"] - alone["ms"]
            row += [
                f"{s['tokens'] / alone['tokens'] * alone['ms'] / s['ms']:.2f}", f"{exposed:,.2f}",
                f"{exposed / s['ms']:.1%}"
            ]
        rows.append(row + [""] * (6 - len(row)))
    return table([
        "devices x micro-batches of each", "ms a step", "tokens/s", "times one device's", "exposed communication, ms",
        "of the step"
    ], rows) if rows else None


def collectives(measured):
    rows = [[
        f"{what}, {mib} MiB", f"{1e3 * row['ours_ms']:,.1f}", f"{row['ours_gb_s']:,.1f}", f"{row['nccl_gb_s']:,.1f}",
        f"{row['ours_gb_s'] / row['nccl_gb_s']:.1%}"
    ] for mib, kinds in measured.get("mib", {}).items() for what, row in kinds.items()]
    if not rows:
        return f"collectives: {line(measured['failed'])}" if "failed" in measured else None
    return f"{measured['ranks']}:\n\n" + table(
        ["collective", "µs", "GB/s on the bus", "NCCL's own call, GB/s", "of NCCL's own"], rows)


SECTIONS = (("Parts", parts), ("Ceilings", ceilings), ("Rates", rates), ("The step", step), ("Bytes", table_of_bytes),
            ("Kernels", kernels), ("Products", products), ("Attention", attention), ("Attention's passes", heads),
            ("Losses", losses), ("Calibration", calibration), ("Tests", tests), ("Correctness", correctness),
            ("compute-sanitizer", sanitizer), ("Several devices", devices), ("The card", card))


def markdown(result):
    f = Figures(result)
    texts = [f"# {result['plan']['name']} on one GPU", head(f)]
    for title, section in SECTIONS:
        try:
            text = section(f)
        except Exception as error:  # an unexpected figure must not lose the rest of the page
            text = f"This section could not be written: {type(error).__name__}: {error}"
        if text:
            texts += [f"## {title}", text]
    return "\n\n".join(texts)

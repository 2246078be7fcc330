"""The kit's figures as Markdown: rates, shares of the ceilings, the floor."""

# Pass of attention -> its launches: one of cuDNN, or llmc's own kernels.
ATTENTION = {"forward": ("attention.forward", "attention_forward"),
             "backward": ("attention.backward", "attention_backward_queries", "attention_backward_keys")}
PEAK = {"H100": 989, "H200": 989, "A100": 312, "B200": 2250}  # dense bf16 TFLOP/s of the data sheets (SXM)


def table(header, rows):
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(str(word) for word in row) + " |" for row in rows])


def gib(number):
    return "" if number is None else f"{number / 2**30:.2f} GiB"


def launches(plan, passes):
    """(launch, times in a step of so many micro-batches) of training."""
    for launch in plan["launches"]:
        if launch["per"] in ("micro-batch", "step"):
            yield launch, launch["times"] * (passes if launch["per"] == "micro-batch" else 1)


def floor_ms(plan, passes, copy, gemm, attention):
    """The plan's launches at the ceilings: products at the best GEMM's rate, attention as measured with atomics allowed,
    everything else at the rate of a copy."""
    total = 0.0
    for launch, times in launches(plan, passes):
        if launch["kind"] == "gemm":
            total += times * launch["flops"] / (gemm * 1e9)
        elif launch["kind"] == "attention":
            total += times * attention["backward" if "backward" in launch["runs"] else "forward"]
        else:
            total += times * launch["bytes"] / (copy * 1e6)
    return total


def ceilings(r):
    gemm = max(r["gemm_tflop_s"].values())
    sizes = ", ".join(f"{n}: {rate:,.1f}" for n, rate in r["gemm_tflop_s"].items())
    return f"Copy on the device {r['copy_gb_s']:,.0f} GB/s (read and written), best square bf16 product {gemm:,.1f} TFLOP/s ({sizes})."


def kernels(plan, measured, copy):
    work = {kernel["name"]: kernel for kernel in plan["kernels"]}
    rows = []
    for name, row in sorted(measured["in_place"].items(), key=lambda item: -item[1]["ms_a_step"]):
        if name in work:
            def rate(ms, bytes=work[name]["bytes"]):
                return f"{1e-6 * bytes / ms / copy:.1%}"
            rows.append([name, f"{row['a_step']:g}", f"{1e3 * row['ms']:,.1f}", f"{row['ms_a_step']:.3f}",
                         f"{work[name]['bytes'] / 1e6:,.2f}", rate(row["ms"]), rate(measured["on_end"][name]["ms"])])
    return table(["kernel", "launches a step", "µs", "ms a step", "MB", "of copy, in place", "of copy, on end"], rows)


def products(plan, measured, gemm, tuned):
    """`tuned`: what the part tune found, by product; empty where it did not run."""
    work = {product["name"]: product for product in plan["products"]}
    rows = []
    for name, row in sorted(measured["in_place"].items(), key=lambda item: -item[1]["ms_a_step"]):
        if name in work:
            p = work[name]
            rate = 1e-9 * p["flops"] / row["ms"]
            on_end = 1e-9 * p["flops"] / measured["on_end"][name]["ms"]
            rows.append([name, f"{p['m']} x {p['n']} x {p['k']}", f"{row['a_step']:g}", f"{1e3 * row['ms']:,.1f}", f"{row['ms_a_step']:.3f}",
                         f"{rate:,.1f}", f"{rate / gemm:.1%}", f"{on_end / gemm:.1%}",
                         *([tuned[name]["algorithms"], f"{tuned[name]['first_ms'] / tuned[name]['best_ms'] - 1:.1%}"] if name in tuned
                           else ["", ""])])
    return table(["product", "m x n x k", "launches a step", "µs", "ms a step", "TFLOP/s", "of the best, in place", "on end", "algorithms timed",
                  "the fastest before the first"], rows)


def attention(plan, pieces, part, gemm, step_ms):
    """cuDNN's and llmc's own: what they take, rates of the FLOPs that the plan counts for cuDNN, the price of determinism."""
    flops = {name: sum(times * launch["flops"] for launch, times in launches(plan, 1)
                       if launch["kind"] == "attention" and name in launch["runs"]) for name in ATTENTION}

    def ms(measured):
        return {name: sum(measured[launch]["ms_a_step"] for launch in ATTENTION[name] if launch in measured)
                for name in ATTENTION}

    free = ms(pieces["free"])
    taken = {"cuDNN": ms(pieces["in_place"]), "cuDNN, deterministic: false": free}
    if "in_place" in part:
        taken["llmc's own, target.attention: portable"] = ms(part["in_place"])
    rows = []
    for title, times in taken.items():
        row = [title]
        for name, time in times.items():
            rate = 1e-9 * flops[name] / time
            row += [f"{time:.3f}", f"{rate:,.1f}", f"{rate / gemm:.1%}"]
        both = sum(times.values())
        rows.append([*row, *(f"{share / step_ms:.1%}" if step_ms else "" for share in (both, both - sum(free.values())))])
    header = [f"{name}{column}" for name in ATTENTION for column in (", ms a step", ", TFLOP/s", ", of the best")]
    text = table(["attention", *header, "both, of the step", "price of determinism, of the step"], rows)
    if "comparison" in part:
        c = part["comparison"]
        losses = ", ".join(f"{value:.1e}" for value in c["losses"])
        text += (f"\n\ncuDNN against llmc's own, relative differences: losses of the first {len(c['losses'])} steps {losses} "
                 f"(bound {c['loss_bound']:.0e}); gradient norms of the first step at most {c['gradient_norm']:.1e}, of {c['of']} "
                 f"(bound {c['norm_bound']:.1e}).")
    return text


def whole(result, floors):
    plan, r = result["plan"], result["results"]["step"]
    gpu = result["machine"]["gpu"]
    peak = next((value for name, value in PEAK.items() if name in gpu), None)
    best = max(result["results"].get("ceilings", {}).get("gemm_tflop_s", {"": 0}).values())
    rows = []
    for name in ("single", "accumulated"):
        if name not in r:
            continue
        s = r[name]
        rate = s["tokens"] / (s["ms"] / 1e3)
        flops = rate * plan["flops"]["model_per_token"] / 1e12
        rows.append([f"llmc, {plan['batch']['micro_batch']} x {s['passes']}", f"{s['ms']:,.1f}", f"{rate:,.0f}",
                     f"{flops / peak:.1%}" if peak else "", f"{flops / best:.1%}" if best else "",
                     f"{floors[s['passes']]:,.1f} ms: {floors[s['passes']] / s['ms']:.1%}" if floors else "", f"{s['start_up_seconds']:.2f} s",
                     f"arena {gib(s['arena_bytes'])} (plan {gib(plan['memory']['arena_bytes'])}), in all {gib(s['device_bytes'])}",
                     f"{s['host_ms']:.2f} ms" if 'host_ms' in s else ""])
    others = result["results"].get("PyTorch", {})
    for name, t in others.items():
        if not isinstance(t, dict):
            continue
        if "failed" in t:
            rows.append([f"PyTorch {name}", "failed", *[""] * 7])
            continue
        tokens = plan["batch"]["micro_batch"] * plan["batch"]["sequence_length"] * t["passes"]
        rows.append([f"PyTorch {t['torch']} {name}", f"{t['ms']:,.1f}", f"{1e3 * tokens / t['ms']:,.0f}", "", "", "",
                     f"{t['start_up_seconds']:.2f} s", f"reserved {gib(t['reserved_bytes'])}", ""])
    text = table(["step", "ms", "tokens/s", "MFU, data sheet", "MFU, best product", "floor and its share", "start less a step", "memory",
                  "host in a step's launches"], rows)
    passes = {1: "compile, warm", r.get("accumulated", {}).get("passes", 0): "compile, accumulated"}
    for name in ("single", "accumulated"):
        other = others.get(passes.get(r.get(name, {}).get("passes")), {})
        if name in r and "ms" in other:
            text += f"\n\n{name}: {other['ms'] / r[name]['ms']:.2f} times torch.compile's speed"
            if other["reserved_bytes"]:
                text += f", arena {r[name]['arena_bytes'] / other['reserved_bytes']:.2f} times its reserved memory"
            text += "."
    return text


def ready(results, *names):
    return all(name in results and "failed" not in results[name] for name in names)


def markdown(result):
    m, r, plan = result["machine"], result["results"], result["plan"]
    parts = [f"# {plan['name']} on one GPU"]
    if result["simulated"]:
        parts.append("**Simulated: no time, rate or share on this page means anything.**")
    parts.append(f"{m['gpu'] or 'no GPU'}; {m['date']}; {m['nvcc']}; cuBLASLt {m['cublasLt']}, cuDNN {m['cudnn']}, NCCL {m['nccl']}; Python "
                 f"{m['python']}; spec {plan['fingerprint']}; {result['seconds']:.0f} s in all.")
    rows = [[name, "FAILED" if "failed" in step else "absent" if "absent" in step else "done", f"{step['seconds']:.0f} s",
             (step.get("failed") or step.get("absent") or "").replace("|", "/").replace("\n", " ")[-400:]] for name, step in r.items()]
    parts.append(table(["part", "", "took", ""], rows))
    floors = {}
    if ready(r, "ceilings"):
        parts += ["## Ceilings", ceilings(r["ceilings"])]
    if ready(r, "ceilings", "pieces"):
        copy, gemm = r["ceilings"]["copy_gb_s"], max(r["ceilings"]["gemm_tflop_s"].values())
        with_cudnn = "attention.forward" in r["pieces"]["free"]  # else attention is among the kernels
        atomic = {part: r["pieces"]["free"][f"attention.{part}"]["ms"] for part in ATTENTION} if with_cudnn else {}
        counts = [s["passes"] for s in r.get("step", {}).values() if isinstance(s, dict)]
        floors = {passes: floor_ms(plan, passes, copy, gemm, atomic) for passes in counts}
    if "step" in r:
        parts += ["## The step", whole(result, floors)]
    if ready(r, "ceilings", "pieces"):
        parts += ["## Kernels", kernels(plan, r["pieces"], copy), "## Products", products(plan, r["pieces"], gemm, r.get("tune", {}).get("products", {}))]
        if "best_ms" in r.get("tune", {}):
            parts.append(f"A micro-batch's products: {r['tune']['first_ms']:.2f} ms by the algorithms that cuBLASLt suggests, "
                         f"{r['tune']['best_ms']:.2f} ms by those of `trainer tune`, with which everything here ran.")
        if with_cudnn:
            step_ms = r.get("step", {}).get("single", {}).get("ms")
            parts += ["## Attention", attention(plan, r["pieces"], r.get("attention", {}), gemm, step_ms)]
    if "sanitizer" in r:
        parts += ["## compute-sanitizer", "; ".join(f"{tool}: {r['sanitizer'][tool]}" for tool in ("memcheck", "racecheck")
                                                    if tool in r["sanitizer"]) or r["sanitizer"].get("absent") or "failed"]
    if "ran" in r.get("tests", {}):
        parts += ["## Tests", f"{r['tests']['ran']} ran, failed: {', '.join(r['tests']['failures']) or 'none'}."]
    return "\n\n".join(parts)

"""Sections of the kit's page on kernels, products and attention."""

import floors
from figures import ATTENTION, line, of_attention, table


def rates(f):
    """Single GEMMs, and one overlapped with a copy."""
    rows = []
    for part in ("rates", "overlap"):
        for name, row in f.parts.get(part, {}).items():
            if not isinstance(row, dict):
                continue
            if "products" not in row:
                rows.append([name, line(row.get("failed") or row.get("absent") or ""), *[""] * 7])
            for each in row.get("products", []):
                m, n, k, operands, to, scale, accumulation, beta, sms = each["product"].split(",")
                form = f"{operands} to {to}{' + itself' if beta == '1' else ''}"
                form += f", scale {scale}, {accumulation}" if operands != "bf16" else ""
                said = [f"{m} x {n} x {k}", form, sms.rstrip("+") if sms.rstrip("+") != "0" else "all"]
                c = each.get("card", {})
                clock = f"{c['mhz']['median']:,.0f} MHz, {c['watts']['median']:,.0f} W" if c else ""
                if "absent" in each:
                    rows.append([*said, line(each["absent"]), *[""] * 5])
                else:
                    burst = f"{each['burst']:,.1f}" if "burst" in each else ""
                    copy = [f"{each[key]:,.0f}" if key in each else "" for key in ("copy_alone_gb_s", "copy_gb_s")]
                    rows.append([*said, burst, f"{each['sustained']:,.1f}", clock, *copy, each["algorithms"]])
    return table([
        "m x n x k", "product", "SMs", "TFLOP/s, burst", "sustained", "SM clock, power",
        "a copy on the others alone, GB/s", "beside the product", "algorithms"
    ], rows) if rows else None


def heads(f):
    """Attention's passes by shape and mask."""
    measured = f.parts.get("heads", {}).get("attention", {})
    rows = [[
        f"{each['heads']}", f"{each['window'] or 'causal'}", f"{each['way']}, {each['pass']}", f"{each['ms']:.3f}",
        f"{each['burst']:,.1f}", f"{each['sustained']:,.1f}"
    ] for each in measured.get("passes", [])]
    if not rows:
        return line(measured["failed"]) if "failed" in measured else None
    return table(["heads", "window", "pass", "ms", "TFLOP/s, burst", "sustained"], rows)


def table_of_bytes(f):
    """The table's rows next to the plan's and the measured ones."""
    kernels, measured = floors.template_of(f.plan), f.launches("in_place")
    rows = []
    for what, templates, bytes, formula, _ in floors.table(f.plan, f.model):
        row = [what, formula, f"{bytes / 1e9:,.2f}"]
        if not templates:
            rows.append([*row, "in other kernels", "", "", ""])
            continue
        planned = floors.planned_bytes(f.plan, templates)
        ms = sum(each["ms_a_step"] for name, each in measured.items() if kernels.get(name) in templates)
        rows.append([
            *row, f"{planned / 1e9:,.2f}", f"{planned / bytes:.2f}", f"{ms:,.3f}" if ms else "",
            f"{bytes / 1e6 / f.copy / ms:.1%}" if ms and f.copy else ""
        ])
    return table([
        "of a step with one micro-batch", "perfectly fused", "GB", "the plan's GB", "times", "ms in place",
        "of copy by the first GB"
    ], rows)


def kernels(f):
    """Of the run, and of the run with fp8."""
    full = kernels_of(f, f.launches("fp8_full"), {}, f.result.get("plans", {}).get("fp8_full"))
    texts = [kernels_of(f, f.launches("in_place"), f.launches("on_end"), f.plan)]
    texts += ["With `matmul: fp8_full`:", full] if full else []
    return "\n\n".join(filter(None, texts)) or None


def kernels_of(f, measured, on_end, plan):
    if not plan:
        return None
    work = {kernel["name"]: kernel["bytes"] for kernel in plan["kernels"]}
    rows = []
    for name, row in sorted(measured.items(), key=lambda item: -item[1]["ms_a_step"]):
        if name in work:

            def share(each, bytes=work[name]):
                return f"{1e-6 * bytes / each['ms'] / f.copy:.1%}" if each and f.copy else ""

            rows.append([
                name, f"{row['a_step']:g}", f"{1e3 * row['ms']:,.1f}", f"{row['ms_a_step']:.3f}",
                f"{work[name] / 1e6:,.2f}",
                share(row),
                share(on_end.get(name))
            ])
    return table(["kernel", "launches a step", "µs", "ms a step", "MB", "of copy, in place", "of copy, on end"],
                 rows) if rows else None


def products(f):
    """Of the run, and of the run with fp8."""
    tune, full = f.parts.get("tune", {}), f.parts.get("step", {}).get("fp8_full", {})
    texts = [products_of(f, f.launches("in_place"), f.launches("on_end"), f.plan, tune)]
    more = products_of(f, f.launches("fp8_full"), {}, f.result.get("plans", {}).get("fp8_full"), full.get("tune", {}))
    texts += ["With `matmul: fp8_full`:", more] if more else []
    return "\n\n".join(filter(None, texts)) or None


def products_of(f, measured, on_end, plan, tune):
    if not plan:
        return None
    work, tuned = {product["name"]: product for product in plan["products"]}, tune.get("products", {})
    rows = []
    for name, row in sorted(measured.items(), key=lambda item: -item[1]["ms_a_step"]):
        if name in work:
            p = work[name]
            rate = 1e-9 * p["flops"] / row["ms"]
            end = f"{1e-9 * p['flops'] / on_end[name]['ms'] / f.gemm:.1%}" if name in on_end and f.gemm else ""
            rows.append([
                name, f"{p['m']} x {p['n']} x {p['k']}", f"{row['a_step']:g}", f"{1e3 * row['ms']:,.1f}",
                f"{row['ms_a_step']:.3f}", f"{rate:,.1f}", f"{rate / f.gemm:.1%}" if f.gemm else "", end,
                *([tuned[name]["algorithms"], f"{tuned[name]['first_ms'] / tuned[name]['best_ms'] - 1:.1%}"]
                  if name in tuned else ["", ""])
            ])
    if not rows:
        return None
    text = table([
        "product", "m x n x k", "launches a step", "µs", "ms a step", "TFLOP/s", "of the best, in place", "on end",
        "algorithms timed", "the fastest before the first"
    ], rows)
    if "best_ms" in tune:
        text += (f"\n\nA micro-batch's products: {tune['first_ms']:.2f} ms by the algorithms that cuBLASLt suggests, "
                 f"{tune['best_ms']:.2f} ms by those of `trainer tune`, with which everything here ran.")
    return text


def attention(f):
    """Each kind: its time, rates of the FLOPs that the plan counts for the library's, the cost of determinism."""
    forward = sum(times * launch["flops"] for launch, times in floors.launches(f.plan, 1)
                  if launch["runs"].startswith("attention") and "forward" in launch["runs"])
    flops = {"forward": forward, "backward": 2.5 * forward}  # two products, and five
    titles = {**f.result["bundles"], "in_place": "the run's"}
    step_ms, free = f.steps().get("run", {}).get("ms"), f.attention_ms("free")
    rows = []
    for name in ("in_place", "free", *(each for each in f.parts.get("attention", {}) if each in f.result["bundles"])):
        times = f.attention_ms(name)
        if not times:
            said = f.parts.get("attention", {}).get(name, {})
            if said.get("absent") or said.get("failed"):
                rows.append([titles[name], line(said.get("absent") or said["failed"]), *[""] * 7])
            continue
        row = [titles[name]]
        for each, ms in times.items():
            rate = 1e-9 * flops[each] / ms
            row += [f"{ms:.3f}", f"{rate:,.1f}", f"{rate / f.gemm:.1%}" if f.gemm else ""]
        both = sum(times.values())
        price = both - sum(free.values()) if free else None
        rows.append([
            *row, f"{both / step_ms:.1%}" if step_ms else "",
            f"{price / step_ms:.1%}" if step_ms and price is not None else ""
        ])
    if not rows:
        return None
    header = [f"{name}{column}" for name in ATTENTION for column in (", ms a step", ", TFLOP/s", ", of the best")]
    text = table(["attention", *header, "both, of the step", "price of determinism, of the step"], rows)
    for name, part in f.parts.get("attention", {}).items():
        if isinstance(part, dict) and "launches" in part:
            passes = {
                each: launch["ms_a_step"]
                for names in ATTENTION.values() for each, launch in of_attention(part["launches"], names).items()
            }
            text += f"\n\nThe launches of {titles[name]}: " + ", ".join(f"{each} {ms:.3f} ms a step"
                                                                        for each, ms in passes.items()) + "."
        if isinstance(part, dict) and "comparison" in part:
            c = part["comparison"]
            losses = ", ".join(f"{value:.1e}" for value in c["losses"])
            text += (
                f"\n\nThe run's against {titles[name]}, relative differences: losses of the first {len(c['losses'])} steps {losses} "
                f"(bound {c['loss_bound']:.0e}); gradient norms of the first step at most {c['gradient_norm']:.1e}, of {c['of']} "
                f"(bound {c['norm_bound']:.1e}).")
    return text


def calibration(f):
    texts = [
        calibration_of(row["figures"]) for row in f.parts.get("calibrate", {}).values()
        if isinstance(row, dict) and "figures" in row
    ]
    return "\n\n".join(texts) or None


def calibration_of(figures):
    products = figures["products"]
    rows = [[
        f"{form}, m = n = k = {size}",
        f"{1e-12 * products[form][i * (len(products['sizes']) ** 2 + len(products['sizes']) + 1)]:,.1f} TFLOP/s"
    ] for form in ("forward", "data_gradient", "weight_gradient") for i, size in enumerate(products["sizes"])]
    rows += [[f"copy, {copy['bytes'] >> 10:,} KiB read and written", f"{1e-9 * copy['rate']:,.0f} GB/s"]
             for copy in figures["copies"]]
    rows.append(["one small operation after another", f"{1e6 * figures['launch']:.2f} µs"])
    for name in ("attention_forward", "attention_backward"):
        one = figures[name]
        rows.append([
            f"{name}, head_dim {figures['head_dim']}, {figures['sequence']:,} tokens",
            f"{1e3 * one['seconds']:.4f} ms, {1e-12 * one['flops'] / one['seconds']:,.1f} TFLOP/s of half of the square"
        ])
    for name in ("kernels", "optimizer"):
        if name in figures:
            rows.append([
                name,
                f"{1e3 * figures[name]['seconds']:.4f} ms, {1e-9 * figures[name]['bytes'] / figures[name]['seconds']:,.0f} GB/s"
            ])
    return table(["what `trainer calibrate` measured", f"{figures['device']}, {figures['date']}"], rows)

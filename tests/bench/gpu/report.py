"""The kit's figures as Markdown, for any state of the parts."""

import floors

# Pass of attention -> its launches: one of cuDNN, or llmc's own kernels.
ATTENTION = {
    "forward": ("attention.forward", "attention_forward", "attention_forward_warpgroups"), "backward":
    ("attention.backward", "attention_backward_queries", "attention_backward_keys",
     "attention_backward_queries_warpgroups", "attention_backward_keys_warpgroups")
}


def table(header, rows):
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(str(word) for word in row) + " |" for row in rows])


def gib(number):
    return "" if number is None else f"{number / 2**30:.2f} GiB"


def line(text):
    return text.replace("|", "/").replace("\n", " ")[-600:]


class Figures:
    """A result with the rates that several sections need; None for missing measurements."""

    def __init__(self, result):
        self.result, self.plan, self.model, self.parts = result, result["plan"], result["model"], result["results"]
        ceilings = self.parts.get("ceilings", {})
        self.copy = ceilings.get("copy_gb_s", {}).get("sustained")
        self.gemm = max((rates["sustained"] for rates in ceilings.get("gemm_tflop_s", {}).values()), default=None)

    def launches(self, name):
        """Launches of the run's trainer with clocks (in_place, on_end, free), with fp8 (fp8_full), or with another kind of
        attention."""
        part = {"in_place": "pieces", "fp8_full": "pieces", "on_end": "repeated", "free":
                "repeated"}.get(name, "attention")
        return self.parts.get(part, {}).get(name, {}).get("launches", {})

    def attention_ms(self, name):
        """{pass of attention: ms of a micro-batch}, or None."""
        rows = self.launches(name)
        found = {
            each: sum(rows[launch]["ms_a_step"] for launch in names if launch in rows)
            for each, names in ATTENTION.items()
        }
        return found if all(found.values()) else None

    def floor(self, passes):
        """ms of a step of the run, or None."""
        attention, measured = self.attention_ms("in_place"), self.launches("in_place")
        products = sum(measured[product["name"]]["ms_a_step"] for product in self.plan["products"]
                       if product["name"] in measured)
        if not (self.copy and attention and products):
            return None
        return floors.floor(self.plan, passes, self.copy, products, sum(attention.values()))

    def steps(self):
        """Rows of whole steps, by name."""
        return {**self.parts.get("step", {}), **self.parts.get("variants", {})}

    def torch(self):
        """Rows of PyTorch, by name."""
        rows = {**self.parts.get("compiled", {}), **self.parts.get("PyTorch", {})}
        return {name: row for name, row in rows.items() if isinstance(row, dict)}


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
    rate, gpu = s["tokens"] / (s["ms"] / 1e3), f.result["machine"].get("gpu") or ""
    flops = rate * s["flops_per_token"] / 1e12
    peak = next((value for name, value in floors.PEAK.items() if name in gpu), None)
    floor = f.floor(s["passes"]) if of_run else None
    c = s.get("card", {})
    return [
        title, f"{s['ms']:,.1f}", f"{rate:,.0f}", f"{flops / peak:.1%}" if peak else "",
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
                each: part["launches"][each]["ms_a_step"]
                for names in ATTENTION.values() for each in names if each in part["launches"]
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

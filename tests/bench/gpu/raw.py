"""Raw results as lines of JSON, one per row and one per GEMM or launch, committed together with the table made from
them."""

import floors


def rows(result):
    """The machine first, then every part's rows in order."""
    plan = result["plan"]
    yield {
        "simulated": result["simulated"], "machine": result["machine"], "spec": plan["name"], "fingerprint":
        plan["fingerprint"], "bundles": result["bundles"]
    }
    for part, figures in result["results"].items():
        yield {"part": part, **{name: value for name, value in figures.items() if not isinstance(value, dict)}}
        for name, row in figures.items():
            if isinstance(row, dict):
                yield from row_of(result.get("plans", {}).get(name, plan), {"part": part, "row": name}, row)


def row_of(plan, place, row):
    lines = row.get("products", {}) if isinstance(row.get("products"), list) else []
    kept = {name: value for name, value in row.items() if name != "launches" and not (name == "products" and lines)}
    yield {**place, **kept}
    for line in lines:
        yield {**place, **line}
    work, templates = {product["name"]: product for product in plan["products"]}, floors.template_of(plan)
    for name, times in row.get("launches", {}).items():
        product = {key: work[name][key]
                   for key in ("m", "n", "k", "operands", "result", "flops")} if name in work else {}
        yield {
            **place, "launch": name, **({"template": templates[name]} if name in templates else {}), **times, **product
        }

#!/usr/bin/env python3
"""Draws two charts of a plan's page as one SVG: memory over a micro-batch, and the time of the ops.

    llmc plan SPEC --html PAGE.html
    docs/picture.py PAGE.html PICTURE.svg
"""
import json
import re
import sys

COLOURS = ["#4269d0", "#efb118", "#ff725c", "#6cc5b0", "#3ca951", "#ff8ab7", "#a463f2"]
BOUNDS = {"compute": "#4269d0", "memory": "#efb118", "launch": "#9c6b4e", "link": "#ff725c"}
WIDTH, LEFT, TOP, HEIGHT, ROW = 900, 60, 84, 240, 20
OPS = 14  # the most expensive ones


def text(x, y, content, size=12, anchor="start", fill="#1f2328", weight="normal"):
    content = content.replace("&", "&amp;").replace("<", "&lt;")
    return (f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="{fill}" '
            f'font-weight="{weight}">{content}</text>')


def rectangle(x, y, width, height, fill):
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{fill}"/>'


def bands(memory):
    """(name, bytes at each launch of the micro-batch and the optimizer), the lowest first."""
    launches = [(run["kept"], transient) for run in memory["runs"]
                for _, transient in memory["transients"][run["region"]]]
    fixed = sorted(memory["sections"], key=lambda section: -section["bytes"])
    large = [section for section in fixed if section["bytes"] > memory["fixed_bytes"] / 50][:4]
    found = [(section["name"], [section["bytes"]] * len(launches)) for section in large]
    rest = memory["fixed_bytes"] - sum(section["bytes"] for section in large)
    if rest > 0:
        found.append(("other", [rest] * len(launches)))
    return found + [("kept activations", [kept for kept, _ in launches]),
                    ("transients", [other for _, other in launches])]


def steps(values, x, y):
    """(x, y) of the corners of a stepped line, from left to right."""
    corners = [(x(0), y(values[0]))]
    for i, value in enumerate(values):
        if y(value) != corners[-1][1]:
            corners += [(x(i), corners[-1][1]), (x(i), y(value))]
    return corners + [(x(len(values)), corners[-1][1])]


def area(lower, upper, x, y):
    """The path around what lies between two stepped lines."""
    corners = steps(upper, x, y) + steps(lower, x, y)[::-1]
    return "M" + "L".join(f"{right:.1f},{down:.0f}" for right, down in corners) + "Z"


def memory_chart(plan, memory):
    count = sum(len(memory["transients"][run["region"]]) for run in memory["runs"])
    top = 1.08 * plan["arena_bytes"]

    def x(launch):
        return LEFT + (WIDTH - LEFT - 20) * launch / count

    def y(value):
        return round(TOP + HEIGHT * (1 - value / top))

    out, lower, at = [], [0] * count, LEFT
    for (name, values), colour in zip(bands(memory), COLOURS):
        upper = [low + value for low, value in zip(lower, values)]
        out.append(f'<path d="{area(lower, upper, x, y)}" fill="{colour}"/>')
        out += [rectangle(at, TOP - 24, 10, 10, colour), text(at + 14, TOP - 15, name)]
        at += 34 + 6.6 * len(name)
        lower = upper
    out.append(f'<path d="M{LEFT},{y(plan["arena_bytes"]):.1f}H{WIDTH - 20}" stroke="#1f2328" stroke-dasharray="4 4"/>')
    out.append(
        text(WIDTH - 24,
             y(plan["arena_bytes"]) - 4, f'allocated {plan["arena_bytes"] / 2**30:.2f} GiB', anchor="end"))
    for gib in range(0, int(top / 2**30) + 1, 10):
        out.append(text(LEFT - 6, y(gib * 2**30) + 4, f"{gib} GiB", anchor="end", fill="#59636e"))
    out.append(
        text(WIDTH - 20, TOP + HEIGHT + 18, "launches of a micro-batch, then of the optimizer", anchor="end",
             fill="#59636e"))
    return out


def time_chart(ops, top):
    out, x = [], LEFT
    for bound, colour in BOUNDS.items():
        if any(op["bound"] == bound for op in ops):
            out += [rectangle(x, top - 22, 10, 10, colour), text(x + 14, top - 13, f"bound by {bound}")]
            x += 150
    for row, op in enumerate(ops[:OPS]):
        y = top + ROW * row
        out.append(text(LEFT + 250, y + 13, op["runs"], anchor="end"))
        out.append(
            rectangle(LEFT + 258, y + 2, 420 * op["seconds_a_step"] / ops[0]["seconds_a_step"], ROW - 6,
                      BOUNDS[op["bound"]]))
        out.append(text(WIDTH - 20, y + 13, f'{1e3 * op["seconds_a_step"]:.0f} ms', anchor="end"))
    return out


def picture(page):
    data = json.loads(re.search(r'<script[^>]*id="data"[^>]*>(.*?)</script>', page, re.DOTALL).group(1))
    plan, top = data["plan"], TOP + HEIGHT + 84
    height = top + ROW * OPS + 10
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
        'font-family="system-ui, sans-serif">',
        rectangle(0, 0, WIDTH, height, "#ffffff"),
        text(LEFT, 24, f'llmc plan: {plan["name"]} on one {plan["device"]["name"]}', 16, weight="bold"),
        text(LEFT, 44, f'Memory over a step: {plan["arena_bytes"] / 2**30:.2f} GiB, allocated once, exact to the byte',
             13), *memory_chart(plan, data["memory"]),
        text(LEFT, top - 34, f'Time by op: {plan["step_seconds"]:.2f} s a step, predicted', 13),
        *time_chart(data["ops"], top), "</svg>"
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as page_file:
        drawn = picture(page_file.read())
    with open(sys.argv[2], "w", encoding="utf-8") as svg_file:
        svg_file.write(drawn)

"""Figures and Markdown tables that several sections of the kit's page need."""

import floors

# Pass of attention -> the beginnings of its launches' names: of cuDNN's, and of llmc's own kernels.
ATTENTION = {
    "forward": ("attention.forward", "attention_forward"), "backward": ("attention.backward", "attention_backward")
}


def of_attention(launches, names):
    """Launches with one of these beginnings."""
    return {name: launch for name, launch in launches.items() if name.startswith(names)}


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
        self.peak = ceilings.get("peak_tflop_s")
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
            each: sum(launch["ms_a_step"] for launch in of_attention(rows, names).values())
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

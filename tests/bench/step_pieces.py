"""Puts a clock around every kernel launch and every library call of an emitted step."""

import re

CALL = re.compile(r"^( +)(launch\(s\.stream,\s+(?:Grid\{[^}]*\},\s+)?(\w+)|s\.([\w.]+)\(s\.stream,)", re.MULTILINE)


def instrument(source, header, clock, entries):
    """The step's source with `#include "header"`. clock(name, is_product) precedes each call, and entries[name of a
    function] is inserted where that function begins."""

    def wrap(match):
        name, product = (match[4], True) if match[4] else (match[3], False)
        return f"{match[1]}{clock(name, product)} {match[2]}"

    timed, count = CALL.subn(wrap, source)
    if count < 10:
        raise SystemExit("the emitted step no longer has the form that step_pieces.py knows: few calls in it")
    for function, text in entries.items():
        timed, found = re.subn(rf"^void {function}\([^)]*\) {{", lambda match: f"{match[0]} {text}", timed,
                               flags=re.MULTILINE)
        if found != 1:
            raise SystemExit(
                f"the emitted step no longer has the form that step_pieces.py knows: no function {function}")
    return timed.replace('#include "step.h"\n', f'#include "step.h"\n#include "{header}"\n')

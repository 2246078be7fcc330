"""The part for several devices: rates of collectives, and a step with one rank per device compared with one rank's."""

import json
import re

import process
import training


def collectives(kit, count):
    """The trainer's calls and NCCL's own, alternating."""
    kit.need("run", "collectives")
    sizes = kit.sizes["collectives"]
    output = kit.call(kit.machine.program("run", "collectives"), count, sizes["runs"], *sizes["mib"])
    return json.loads(re.search(r"^\[rank 0\] (\{.*\})$", output, re.MULTILINE)[1])


def devices(kit, result):
    count, several = kit.machine.devices(), kit.sizes["accumulated"]
    if count < 2:
        result[
            "absent"] = f"this machine shows {count} GPU{'' if count == 1 else 's'}, and it takes two to have anything to send"
        return
    result["devices"] = count
    kit.rows(
        result, {
            "collectives": lambda: collectives(kit, count), "one": lambda: training.whole_steps(kit, "run", 1), "all":
            lambda: training.whole_steps(kit, "run", 1, count), "one, accumulated":
            lambda: training.whole_steps(kit, "run", several), "all, accumulated":
            lambda: training.whole_steps(kit, "run", several, count)
        })

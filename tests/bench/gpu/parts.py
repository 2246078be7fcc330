"""The kit's parts in order: the most decisive ones in the first command, dispensable ones last."""

import dataclasses

import build as builds
import correctness
import devices
import losses
import pieces
import pytorch
import rates
import steps


@dataclasses.dataclass(frozen=True)
class Part:
    name: str
    function: object
    expected: int  # seconds on an H200 with 16 cores: README.md explains
    limit: int  # seconds until it is stopped
    programs: tuple = ()  # (bundle, program) in addition to those of `steps` and `attention`
    steps: bool = False  # trainers of the bundles that are timed as whole steps in the part `step`
    later: bool = False  # and in the part `variants`
    curve: bool = False  # trainers whose losses are compared
    attention: bool = False  # clocked trainers of the other kinds of attention
    tools: tuple = ()  # programs of the machine
    gpus: int = 1


FIRST = (
    Part("build", steps.build, 55, 240, tools=("nvcc", "cmake", "ninja", "g++")),
    Part("tests", steps.tests, 35, 180, tools=("nvcc", "ninja")),
    Part("ceilings", steps.ceilings, 12, 60, (("run", "ceilings"), )),
    Part("rates", rates.rates, 50, 120, (("run", "rates"), )),
    Part("overlap", rates.overlap, 15, 60, (("run", "rates"), )),
    Part("heads", rates.heads, 33, 110, (("run", "heads"), )),
    Part("tune", steps.tune, 22, 110, (("run", "trainer"), )),
    Part("step", steps.whole_steps, 125, 240, (("run", "trainer"), ), steps=True),
    Part("pieces", pieces.pieces, 15, 90, (("run", "timed"), ("fp8_full", "timed"))),
    Part("losses", losses.losses, 22, 120, curve=True),
    Part("attention", pieces.attention, 30, 90, attention=True),
    Part("compiled", pytorch.compiled, 60, 120),
)
SECOND = (
    Part("correctness", correctness.correctness, 45, 150,
         tuple((bundle, "trainer") for bundle in ("small", "wide", "normed", "run"))),
    Part("sanitizer", steps.sanitizer, 25, 120, tuple((bundle, "trainer") for bundle in ("small", "wide", "normed")),
         tools=("compute-sanitizer", )),
    Part("variants", steps.variants, 300, 420, (("run", "trainer"), ("run", "hosted")), later=True),
    Part("repeated", pieces.repeated, 30, 100, (("run", "timed"), ("free", "timed"))),
    Part("PyTorch", pytorch.others, 100, 240),
    Part("calibrate", steps.calibrate, 15, 120, (("run", "trainer"), ("fp8_full", "trainer"))),
    Part("devices", devices.devices, 110, 200, (("run", "trainer"), ("run", "collectives")), gpus=2),
)
PARTS = FIRST + SECOND
OF_PYTORCH = ("compiled", "PyTorch")  # these need nothing that is built


def programs(part, made):
    """(bundle, program) used by a part, of those that could be made."""
    found = [each for each in part.programs if each[1] in builds.OF_THE_KIT or made.has(each[0])]
    for row in made.rows():
        if part.steps and row.step or part.later and row.later:
            found.append((row.name, "trainer"))
        if part.curve and row.curve:
            found.append((row.name, "trainer"))
        if part.attention and row.attention:
            found.append((row.name, "timed"))
    return found

"""The kit's parts, in their order: what is lost when time runs out comes last."""

import dataclasses

import build as builds
import correctness
import devices
import pieces
import steps


@dataclasses.dataclass(frozen=True)
class Part:
    name: str
    function: object
    expected: int  # seconds on an H100 with 16 cores: README.md says why
    limit: int  # seconds, after which it is stopped
    programs: tuple = ()  # (bundle, program) besides those of `steps` and `attention`
    steps: bool = False  # the trainers of the bundles that are timed as whole steps
    attention: bool = False  # the clocked trainers of the other kinds of attention
    tools: tuple = ()  # programs of the machine
    gpus: int = 1


PARTS = (
    Part("build", steps.build, 60, 240, tools=("nvcc", "cmake", "ninja", "g++")),
    Part("ceilings", steps.ceilings, 15, 60, (("run", "ceilings"),)),
    Part("tune", steps.tune, 20, 100, (("run", "trainer"),), steps=True),
    Part("step", steps.whole_steps, 80, 220, (("run", "trainer"), ("run", "hosted")), steps=True),
    Part("PyTorch", steps.torch, 190, 280),
    Part("pieces", pieces.pieces, 45, 120, (("run", "timed"), ("free", "timed"))),
    Part("attention", pieces.attention, 20, 90, attention=True),
    Part("calibrate", steps.calibrate, 20, 90, (("run", "trainer"),)),
    Part("tests", steps.tests, 60, 180, tools=("nvcc", "ninja")),
    Part("correctness", correctness.correctness, 60, 150,
         tuple((bundle, "trainer") for bundle in ("small", "wide", "normed", "run"))),
    Part("sanitizer", steps.sanitizer, 40, 120, tuple((bundle, "trainer") for bundle in ("small", "wide", "normed")),
         tools=("compute-sanitizer",)),
    Part("devices", devices.devices, 110, 200, (("run", "trainer"), ("run", "collectives")), gpus=2),
)


def programs(part, made):
    """(bundle, program) that a part runs, of those that could be made."""
    found = [each for each in part.programs if each[1] in builds.OF_THE_KIT or made.has(each[0])]
    for row in made.rows():
        if part.steps and row.step:
            found.append((row.name, "trainer"))
        if part.attention and row.attention:
            found.append((row.name, "timed"))
    return found

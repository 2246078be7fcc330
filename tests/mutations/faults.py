"""All faults. Each is a plausible mistake: one place in one function, and the tests that must detect it by the
program's behaviour. Texts written by llmc (generated/, golden files) do not count: `regenerate` would hide the
fault."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Fault:
    name: str
    anchor: str  # the function, or another declaration outside of one; see Sources.place
    old: str  # these tokens occur there exactly once
    new: str
    tests: tuple  # "PROGRAM FILTER" of a GoogleTest program, or the whole name of a test of ctest
    needs: str = ""  # instruction set in /proc/cpuinfo without which the fault changes nothing

    def cheap(self):
        """Whether building and running its tests takes only seconds."""
        return all(test.partition(" ")[0] in CHEAP and test.partition(" ")[2] for test in self.tests)


CHEAP = ("test_data", "test_checkpoint", "test_attention_plan")  # few sources, and no Clang


def fault(name, anchor, old, new, *tests, needs=""):
    return Fault(name, anchor, old, new, tests, needs)


import faults_compiler  # noqa: E402  they need fault()
import faults_data  # noqa: E402
import faults_device  # noqa: E402
import faults_guards  # noqa: E402
import faults_machine  # noqa: E402
import faults_math  # noqa: E402
import faults_muon  # noqa: E402
import faults_plan  # noqa: E402
import faults_ranks  # noqa: E402
import faults_runtime  # noqa: E402
import faults_state  # noqa: E402
import faults_sweep  # noqa: E402
import faults_templates  # noqa: E402

ALL = (faults_templates.FAULTS + faults_runtime.FAULTS + faults_device.FAULTS + faults_ranks.FAULTS +
       faults_math.FAULTS + faults_machine.FAULTS + faults_compiler.FAULTS + faults_plan.FAULTS + faults_state.FAULTS +
       faults_muon.FAULTS + faults_sweep.FAULTS + faults_guards.FAULTS + faults_data.FAULTS)
assert len({f.name for f in ALL}) == len(ALL), "two faults of one name"

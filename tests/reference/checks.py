"""Shared by the checks against PyTorch and the whole-run tests: reporting, errors to compare with bounds, and the limit of
a program."""

import math
import os

# Seconds after which a program counts as hung. Below ctest's own limit, after which it ends the test without a message
# of which program it was.
HANGS = 0.8 * float(os.environ.get("LLMC_HANG_LIMIT", "1200"))


def nan_as_inf(error):
    """The error, or inf if it is NaN: that exceeds every bound, where max() and `>` drop NaN."""
    return math.inf if math.isnan(error) else error


class Checks:
    """Reports failures and counts them."""

    def __init__(self):
        self.failed = 0

    def expect(self, good, what):
        if not good:
            self.failed += 1
            print(f"FAILED: {what}", flush=True)

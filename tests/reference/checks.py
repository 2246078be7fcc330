"""Reporting of failed reference checks."""


class Checks:
    """Reports failures and counts them."""

    def __init__(self):
        self.failed = 0

    def expect(self, good, what):
        if not good:
            self.failed += 1
            print(f"FAILED: {what}", flush=True)

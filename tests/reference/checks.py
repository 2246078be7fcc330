"""What a reference check says where something is wrong."""


class Checks:
    """Says what is wrong and counts it."""

    def __init__(self):
        self.failed = 0

    def expect(self, good, what):
        if not good:
            self.failed += 1
            print(f"FAILED: {what}", flush=True)

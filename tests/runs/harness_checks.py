"""The harness itself: errors that are NaN, programs that a failing test leaves, and waits for a program that has ended."""

import subprocess
import sys
import unittest

import harness
import processes

# Prints the number of its child; both run until killed.
ENDLESS = ("sh", "-c", "sleep 1000 & echo $!; wait")


class Comparisons(unittest.TestCase):

    def test_nan_exceeds_every_bound(self):
        exact = {"a": [1.0, 2.0], "b": [3.0]}
        self.assertEqual(harness.relative_difference({"a": [1.0, 2.0], "b": [3.0]}, exact)[0], 0.0)
        self.assertEqual(harness.relative_difference({"a": [1.0, 3.0], "b": [3.0]}, exact), (0.2**0.5, "a"))
        for a, b in (([1.0, 3.0], [float("nan")]), ([1.0, float("nan")], [4.0])):
            self.assertEqual(harness.relative_difference({"a": a, "b": b}, exact)[0], float("inf"))
        self.assertEqual(harness.relative_difference(exact, {"a": [0.0, float("nan")], "b": [3.0]})[0], float("inf"))

    def test_every_number_is_compared(self):
        exact = {"a": [1.0, 2.0]}
        for name, ours in (("a", {"a": [1.0]}), ("a", {}), ("b", {"a": [1.0, 2.0], "b": [0.0]})):
            self.assertEqual(harness.relative_difference(ours, exact), (float("inf"), name))


class Fails(harness.RunTest):
    """Not a test of its own: it fails while a program runs."""

    def runTest(self):
        process = self.start(*ENDLESS, stdout=subprocess.PIPE, text=True)
        type(self).started = [process.pid, int(process.stdout.readline())]
        self.fail()

    def ended(self):
        process = self.start(sys.executable, "-c", "exit('re' + 'fused')", stderr=subprocess.PIPE, text=True)
        self.until(process, lambda: False)


def load_tests(loader, tests, pattern):
    return unittest.TestSuite(map(loader.loadTestsFromTestCase, (Comparisons, Programs)))


class Programs(unittest.TestCase):

    def run_failing(self, name):
        result = unittest.TestResult()
        unittest.TestSuite([Fails(name)]).run(result)
        self.assertEqual((len(result.failures), len(result.errors)), (1, 0), result.errors)
        return result.failures[0][1]

    def test_a_failure_leaves_no_program(self):
        self.run_failing("runTest")
        running = {number for number, _, _ in processes.living()}
        self.assertEqual([number for number in Fails.started if number in running], [])

    def test_a_program_that_has_ended_is_not_waited_for(self):
        self.assertRegex(self.run_failing("ended"), r"has ended with 1: .*refused")


if __name__ == "__main__":
    harness.main()

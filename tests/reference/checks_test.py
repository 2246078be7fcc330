#!/usr/bin/python3
"""Tests the checks themselves: an error that is NaN is outside every bound."""

import types
import unittest
from unittest import mock

import numpy as np
import torch

import check_gradients
import check_int8

NAN = float("nan")


class Gradients(unittest.TestCase):

    def good(self, gradients=(), **summary):
        """Whether a step with these results is good, whose exact gradients and figures are 1."""
        ones = {name: np.ones(2) for name in "ab"}
        exact = types.SimpleNamespace(loss=1.0, figures={"top1": 1.0, "entropy": 1.0, "lse_mean": 1.0},
                                      gradients={name: torch.ones(2, dtype=torch.float64)
                                                 for name in "ab"})
        judged = check_gradients.Draws(types.SimpleNamespace(step=lambda *_: exact), "exact", None)
        trace = ({}, {}, {**ones, **dict(gradients)}, {"loss": 1.0, **exact.figures, **summary})
        with mock.patch.object(check_gradients, "read_trace", lambda _: trace):
            judged.add("step")
        return judged.good()

    def test_nan_is_off(self):
        self.assertTrue(self.good())
        for name in ("loss", "top1", "entropy", "lse_mean"):
            self.assertFalse(self.good(**{name: NAN}), name)
        for name in "ab":
            self.assertFalse(self.good({name: np.array([1, NAN])}), name)


class EightBits(unittest.TestCase):

    def test_nan_is_off(self):
        exact, terms = np.ones(256), np.ones(256)
        nan = np.where(np.arange(256) == 3, NAN, exact)
        codes = np.full(256, 255, dtype=np.uint8)
        moment = lambda **saved: check_int8.Moment({f"exp_avg{name}.p": value
                                                    for name, value in saved.items()}, "exp_avg", "p", 256)
        self.assertEqual(moment(**{"": exact}).check("", exact, terms), 0)
        self.assertEqual(moment(**{"": codes, "_scale": np.ones(1)}).check("", exact, terms), 0)
        for saved, right in (({"": nan}, exact), ({"": codes, "_scale":
                                                   np.array([NAN])}, exact), ({"": codes, "_scale": np.ones(1)}, nan)):
            with self.assertRaises(SystemExit):
                moment(**saved).check("", right, terms)


if __name__ == "__main__":
    unittest.main(verbosity=2)

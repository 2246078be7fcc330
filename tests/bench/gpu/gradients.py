#!/usr/bin/env python3
"""Compares the traces of one trainer's first step, in bf16 with an fp32 residual stream, with PyTorch in float64, by the bounds
of tests/reference/check_gradients.py. Prints one JSON object; exits with 1 past a bound."""

import argparse
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "reference"))
import check_gradients  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=pathlib.Path, required=True, help="the run's config.json")
    parser.add_argument("traces", nargs="+", help="folders that --trace wrote, of other weights and tokens each")
    a = parser.parse_args()
    model = json.loads(a.model.read_text())
    draws = check_gradients.Draws(check_gradients.Reference({**model, "qk_norm": model["model_type"] == "qwen3"}),
                                  "bf16", None)
    for trace in a.traces:
        draws.add(trace)
    print(json.dumps({"good": draws.good(), "line": draws.line()}))
    return 0 if draws.good() else 1


if __name__ == "__main__":
    sys.exit(main())

"""Checks a trainer's timeline (trainer --timeline), for the tests on the CPU and on the simulated GPU."""

import collections
import json


def read(path):
    with open(path) as file:
        return json.load(file)


def launches(timeline):
    return [event for event in timeline["traceEvents"] if event["ph"] == "X" and "runs" in event["args"]]


def check(test, timeline, plan, steps, fingerprint=None):
    """Each launch of the plan occurs by name as often as planned, and no other; the arena's live bytes reach the
    plan's peak. fingerprint: of the trainer, if it was planned for another number of ranks."""
    about = timeline["otherData"]
    test.assertEqual((about["fingerprint"], about["graphs"]), (fingerprint or plan["fingerprint"], False))
    test.assertEqual(about["steps"], list(steps))
    test.assertEqual(len(about["step_seconds"]), len(about["steps"]))
    alone = about["world_size"] == 1
    launched_as = {(region["name"], launch["op"], launch["runs"]): launch["launched_as"]
                   for region in plan["regions"] for launch in region["launches"]}
    expected = collections.Counter()
    for launch in plan["launches"]:
        how = launched_as[launch["region"], launch["op"], launch["runs"]]
        if alone and how == "collective":  # a single rank communicates nothing
            continue
        times = launch["times"] * (1 if launch["per"] == "step" else plan["ranks"]["micro_batches_of_a_rank"])
        key = launch["region"], launch["op"], how
        # One call of an attention pass may launch several kernels.
        expected[key] = times * len(about["steps"]) + (0 if how == "attention" else expected[key])
    found = collections.Counter((e["args"]["region"], e["name"], e["cat"]) for e in launches(timeline))
    test.assertEqual({key: (found[key], expected[key])
                      for key in {**found, **expected} if found[key] != expected[key]}, {})
    test.assertEqual({e["args"]["step"] for e in launches(timeline)}, set(steps))
    live = [sum(event["args"].values()) for event in timeline["traceEvents"] if event["ph"] == "C"]
    test.assertEqual(max(live), plan["memory"]["live"]["peak_bytes"])
    # When the last layer's backward pass starts, all layers' activations are alive: only packing and transient needs of
    # other regions are larger.
    memory = plan["memory"]
    test.assertLessEqual(max(live), memory["arena_bytes"])
    test.assertGreater(max(live), memory["arena_bytes"] - memory["transient_bytes"])
    # On one stream launches do not overlap and stay within their step.
    for track in {e["tid"] for e in launches(timeline)}:
        ordered = sorted((e for e in launches(timeline) if e["tid"] == track), key=lambda e: e["ts"])
        for one, next_one in zip(ordered, ordered[1:]):
            test.assertLessEqual(one["ts"] + one["dur"], next_one["ts"] + 1)
    spans = [e for e in timeline["traceEvents"] if e["ph"] == "X" and e["cat"] == "step"]
    test.assertEqual([e["name"] for e in spans], [f"step {step}" for step in steps])
    return found

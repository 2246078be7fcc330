"""State of the card while rows are measured: its energy, SM clock, power, temperature, and limits on its clock. Uses
NVML, read-only."""

import ctypes
import os
import statistics
import threading
import time

PERIOD = 0.05  # seconds between samples
SM_CLOCK, GPU_TEMPERATURE = 1, 0  # nvmlClockType_t, nvmlTemperatureSensors_t
IDLE = 0x1
# nvmlDeviceGetCurrentClocksEventReasons. Idle samples, such as those while a process starts, count only for the energy.
REASONS = {
    0x2: "application clocks", 0x4: "power cap", 0x8: "hardware slowdown", 0x10: "sync boost", 0x20: "software thermal",
    0x40: "hardware thermal", 0x80: "power brake", 0x100: "display clocks"
}


class Nvml:
    """The first visible GPU. Raises OSError or AttributeError if the library is missing or too old."""

    def __init__(self):
        self.library, self.device = ctypes.CDLL("libnvidia-ml.so.1"), ctypes.c_void_p()
        shown = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")[0]
        self.call("nvmlInit_v2")
        if shown and not shown.isdecimal():
            self.call("nvmlDeviceGetHandleByUUID", shown.encode(), ctypes.byref(self.device))
        else:
            self.call("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(int(shown or 0)), ctypes.byref(self.device))
        # Drivers before 535 have the second name.
        self.reasons = next(name for name in ("nvmlDeviceGetCurrentClocksEventReasons",
                                              "nvmlDeviceGetCurrentClocksThrottleReasons")
                            if hasattr(self.library, name))

    def call(self, name, *arguments):
        status = getattr(self.library, name)(*arguments)
        if status:
            raise OSError(f"{name} says {status}")

    def read(self, name, kind, *arguments):
        value = kind()
        self.call(name, self.device, *arguments, ctypes.byref(value))
        return value.value

    def sample(self):
        """(seconds, joules since the driver was loaded, MHz, watts, degrees, reasons)."""
        return (time.monotonic(), 1e-3 * self.read("nvmlDeviceGetTotalEnergyConsumption", ctypes.c_ulonglong),
                self.read("nvmlDeviceGetClockInfo", ctypes.c_uint,
                          ctypes.c_int(SM_CLOCK)), 1e-3 * self.read("nvmlDeviceGetPowerUsage", ctypes.c_uint),
                self.read("nvmlDeviceGetTemperature", ctypes.c_uint,
                          ctypes.c_int(GPU_TEMPERATURE)), self.read(self.reasons, ctypes.c_ulonglong))


def spread(values):
    return {"least": min(values), "median": statistics.median(values), "most": max(values)}


def joules_at(samples, moment):
    """Interpolated linearly between two samples."""
    for before, after in zip(samples, samples[1:]):
        if moment <= after[0]:
            part = min(max((moment - before[0]) / (after[0] - before[0]), 0.0), 1.0)
            return before[1] + part * (after[1] - before[1])
    return samples[-1][1]


def figures(samples, begin, end):
    """A row's figures of the card between two times of time.monotonic(), or just around them if no sample lies
    between; None if it was idle, and with fewer than two samples."""
    inside = [sample for sample in samples if begin <= sample[0] <= end]
    inside = inside or [sample for sample in samples if sample[0] < begin
                        ][-1:] + [sample for sample in samples if sample[0] > end][:1]
    inside = [sample for sample in inside if not sample[5] & IDLE]
    if len(samples) < 2 or not inside:
        return None
    joules = joules_at(samples, end) - joules_at(samples, begin)
    held = {name: sum(1 for sample in inside if sample[5] & bit) / len(inside) for bit, name in REASONS.items()}
    return {
        "joules": joules, "seconds": end - begin, "mhz": spread([sample[2] for sample in inside]), "watts":
        spread([sample[3] for sample in inside]), "celsius": max(sample[4] for sample in inside), "held":
        {name: share
         for name, share in held.items() if share}, "samples": len(inside)
    }


class Watch(threading.Thread):
    """Takes samples while it runs; without NVML there are none, and `problem` tells why."""

    def __init__(self):
        super().__init__(daemon=True)
        self.samples, self.problem, self.stopped = [], None, threading.Event()
        try:
            self.nvml = Nvml()
            self.samples.append(self.nvml.sample())
        except (OSError, AttributeError, StopIteration) as error:
            self.problem = str(error)
            return
        self.start()

    def take(self):
        """Takes a sample, or notes why there are no more."""
        try:
            self.samples.append(self.nvml.sample())
        except OSError as error:
            self.problem = str(error)

    def run(self):
        while not self.problem and not self.stopped.wait(PERIOD):
            self.take()

    def figures(self, begin, end):
        if not self.problem:
            self.take()  # so that all energy is before the last sample
        return figures(sorted(self.samples), begin, end)

    def finish(self):
        self.stopped.set()
        if self.is_alive():
            self.join()

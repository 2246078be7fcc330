"""Ranks on two hosts, simulated by network namespaces with a link between them: it is cut, and it is slow.

network.py --probe: exit code 0 if such hosts can be created, else a line naming what is missing
(tests/runs/CMakeLists.txt).
"""

import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time

import harness
import ranks

RANKS = 4  # two per host
TIMEOUT = 3  # seconds of silence after which a rank counts as lost
SUBNET = "10.213.77"
ENDLESS = (*harness.ENDLESS, "checkpoint.every=5")


class Hosts:
    """node-0 and node-1, each a network namespace and a host name; `folder` gets the script by which mpirun starts its
    daemons."""

    def __init__(self, folder):
        self.names = [f"llmc-{os.getpid()}-{number}" for number in (0, 1)]
        self.links = [f"llmc{os.getpid()}-{number}" for number in (0, 1)]
        self.agent = os.path.join(folder, "agent")
        try:
            for name in self.names:
                ip("netns", "add", name)
            ip("link", "add", self.links[0], "netns", self.names[0], "type", "veth", "peer", "name", self.links[1],
               "netns", self.names[1])
            for number, (name, link) in enumerate(zip(self.names, self.links)):
                ip("-n", name, "address", "add", f"{self.address(number)}/24", "dev", link)
                ip("-n", name, "link", "set", link, "up")
                ip("-n", name, "link", "set", "lo", "up")
        except BaseException:
            self.close()
            raise
        with open(self.agent, "w") as script:
            cases = "".join(f"  {self.address(number)}) number={number} ;;\n" for number in (0, 1))
            script.write(
                f"#!/bin/sh\n# As ssh: HOST COMMAND...\ncase $1 in\n{cases}esac\nshift\n"
                f"exec ip netns exec llmc-{os.getpid()}-$number unshare --uts sh -c \"hostname node-$number; $*\"\n")
        os.chmod(self.agent, 0o755)

    @staticmethod
    def address(number):
        return f"{SUBNET}.{number + 1}"

    def mpirun(self, *command):
        """Command line that starts `command` on all ranks, from node-0."""
        hosts = ",".join(f"{self.address(number)}:{RANKS // 2}" for number in (0, 1))
        network = [word for kind in ("btl", "oob") for word in ("--mca", kind + "_tcp_if_include", f"{SUBNET}.0/24")]
        words = [
            "mpirun", "--mca", "plm_rsh_agent", self.agent, *network, "--host", hosts, "--bind-to", "none",
            *map(str, command)
        ]
        return [self.agent, self.address(0), shlex.join(words)]

    def cut(self):
        ip("-n", self.names[1], "link", "set", self.links[1], "down")

    def mend(self):
        ip("-n", self.names[1], "link", "set", self.links[1], "up")

    def slow(self, rate):
        for name, link in zip(self.names, self.links):
            run("tc", "-n", name, "qdisc", "add", "dev", link, "root", "tbf", "rate", rate, "burst", "32kb", "latency",
                "400ms")

    def fast(self):
        for name, link in zip(self.names, self.links):
            run("tc", "-n", name, "qdisc", "delete", "dev", link, "root")

    def processes(self):
        """Process ids on the hosts."""
        listed = [
            subprocess.run(["ip", "netns", "pids", name], stdout=subprocess.PIPE,
                           stderr=subprocess.DEVNULL).stdout.split() for name in self.names
        ]
        return [int(process) for of_host in listed for process in of_host]

    def end_all(self):
        for process in self.processes():
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def close(self):
        self.end_all()
        for name in self.names:
            subprocess.run(["ip", "netns", "delete", name], stderr=subprocess.DEVNULL)


def run(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)
    if done.returncode:
        raise OSError(f"{' '.join(command)}: {done.stdout.strip()}")
    return done.stdout


def ip(*words):
    return run("ip", *words)


class Network(harness.RunTest):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.spec = harness.write_small(cls.folder)
        cls.trainer = cls.compile(cls.spec, "trainer", "sampling.every=0", *ranks.UNEVEN)
        cls.hosts = Hosts(cls.folder)

    @classmethod
    def tearDownClass(cls):
        cls.hosts.close()
        super().tearDownClass()

    def here(self, name, *words):
        """Trains on this machine, without hosts."""
        return self.succeed(*ranks.mpirun(RANKS, self.trainer, "--run", self.path(name), *words),
                            env=ranks.environment())

    def there(self, name, *words):
        return self.succeed(*self.hosts.mpirun(self.trainer, "--run", self.path(name), *words), env=ranks.environment())

    def checkpoint(self, name, step=ranks.STEPS):
        return self.path(name, "checkpoints", f"step-{step:08d}")

    def test_hosts_change_no_bit(self):
        done = self.there("hosts")
        self.assertIn(f"{RANKS} ranks, Open MPI", done.out)
        self.here("here")
        self.assert_same_files(self.checkpoint("hosts"), self.checkpoint("here"), "two hosts")

    def test_a_slow_link_is_waited_for(self):
        self.hosts.slow("8mbit")
        try:
            self.there("slow", "--steps", 3, "--peer-timeout", TIMEOUT)
            for name, link in zip(self.hosts.names, self.hosts.links):
                self.assertNotIn("overlimits 0 ", run("tc", "-n", name, "-s", "qdisc", "show", "dev", link),
                                 "the link held nothing back")
        finally:
            self.hosts.fast()
        self.here("quick", "--steps", 3)
        self.assert_same_files(self.checkpoint("slow", 3), self.checkpoint("quick", 3), "a slow link")

    def cut(self, when):
        """Cuts the link of a job as soon as `when` holds. Returns the output of each rank when all have ended."""
        # Output of a rank on the remote host cannot reach mpirun any more.
        said = self.path("cut-said-$OMPI_COMM_WORLD_RANK")
        words = shlex.join([
            self.trainer, "--run",
            self.path("cut"), "--peer-timeout",
            str(TIMEOUT), "--start-timeout",
            str(TIMEOUT), *ENDLESS
        ])
        command = self.hosts.mpirun("sh", "-c", f"{words} 2> {said}; echo $? > {said}.code")
        process = self.start(*command, env=ranks.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until = time.monotonic() + 120
        while not when():
            self.assertIsNone(process.poll())
            self.assertLess(time.monotonic(), until)
            time.sleep(1e-3)
        begin = time.monotonic()
        self.hosts.cut()
        while self.trainers():
            self.assertLess(time.monotonic() - begin, 2 * TIMEOUT + 10, "ranks that have not ended")
            time.sleep(0.1)
        texts = [harness.read(self.path(f"cut-said-{rank}")).decode() for rank in range(RANKS)]
        self.hosts.mend()
        process.send_signal(signal.SIGKILL)
        self.hosts.end_all()
        return texts

    def test_a_cut_link_ends_all_and_the_job_goes_on(self):
        """During start, steps and a save."""
        for rank, text in enumerate(self.cut(lambda: len(self.trainers()) == RANKS)):
            with self.subTest(phase="start", rank=rank):
                self.assertRegex(
                    text, rf"the {RANKS} ranks within {TIMEOUT} s|rank \d .host node-\d. is lost: .* {TIMEOUT} s")
                self.assertIn(f"This is rank {rank} (host node-{2 * rank // RANKS})", text)
        for phase, when in (("steps", lambda: harness.newest_checkpoint(self.path("cut")) > 0),
                            ("save", lambda: self.saves("cut"))):
            for rank, text in enumerate(self.cut(when)):
                with self.subTest(phase=phase, rank=rank):
                    # Rank 0 loses the ranks of the other host, and they lose rank 0.
                    self.assertRegex(
                        text,
                        f"rank {'[23]' if rank < RANKS // 2 else '0'} .host node-{1 if rank < RANKS // 2 else 0}. is lost: .* {TIMEOUT} s"
                    )
                    self.assertIn(f"This is rank {rank} (host node-{2 * rank // RANKS})", text)
        end = harness.newest_checkpoint(self.path("cut")) + 4
        self.there("cut", "--steps", end)
        self.here("uncut", "--steps", end, *ENDLESS)
        self.assert_same_files(self.checkpoint("cut", end), self.checkpoint("uncut", end), "after the link was cut")

    def saves(self, name):
        """Whether a checkpoint is being written."""
        return any(not entry.startswith("step-") for entry in os.listdir(self.path(name, "checkpoints")))

    def trainers(self):
        """Trainer processes on the hosts."""
        running = []
        for process in self.hosts.processes():
            try:
                running += [process] if os.readlink(f"/proc/{process}/exe") == self.trainer else []
            except OSError:
                continue
        return running


def probe():
    """Creates everything the test needs, once."""
    with tempfile.TemporaryDirectory() as folder:
        hosts = Hosts(folder)
        try:
            hosts.slow("8mbit")
            run(hosts.agent, hosts.address(1), "true")
        finally:
            hosts.close()


if __name__ == "__main__":
    if sys.argv[1:] == ["--probe"]:
        try:
            probe()
        except OSError as error:
            sys.exit(str(error))
    else:
        harness.main()

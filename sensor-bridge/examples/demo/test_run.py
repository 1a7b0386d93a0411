"""run.py with stand-ins for the two programs: how it ends, and that nothing is left behind.

    python3 -m unittest test_run.py

That the demo works with the real programs is a test of the suite in tests/.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path
from typing import Any

RUN = Path(__file__).with_name("run.py")
TIMEOUT = 40

# Both programs in one file: the first argument says which command is meant. The bridge makes
# the tasks, as files; MODE says what goes wrong.
STAND_IN = """
import http.server, json, os, subprocess, sys, time
from pathlib import Path
here, mode, command = Path(os.environ["STAND_IN_DIR"]), os.environ["STAND_IN_MODE"], sys.argv[1]
options = dict(zip(sys.argv[2:], sys.argv[3:]))

def note_pid(pid):
    with (here / "pids").open("a") as pids:
        pids.write(f"{pid}\\n")

class Ready(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/readyz" else 404)
        self.end_headers()

def tasks():
    return [json.loads(path.read_text()) for path in here.glob("*.task")]

if command == "serve":
    note_pid(os.getpid())
    stubborn = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"
    note_pid(subprocess.Popen([sys.executable, "-c", stubborn]).pid)
    if mode == "service ends":
        sys.exit("the disk is full")
    host, port = options["--listen"].split(":")
    http.server.HTTPServer((host, int(port)), Ready).serve_forever()
elif command == "replay":
    note_pid(os.getpid())
    print(json.dumps({"type": "person.detected", "confidence": 0.93}), flush=True)
    if mode == "bridge ends":
        sys.exit("no such source")
    state = {"fails": "FAILED", "stuck": "WORKING"}.get(mode, "COMPLETED")
    status = {"state": f"TASK_STATE_{state}", "timestamp": "2026-09-16T10:00:00.000Z"}
    task = {"id": "t-1", "status": status}
    if state == "COMPLETED":
        task["artifacts"] = [{"name": "result", "parts": [{"text": "saw a person"}]}]
    if state == "FAILED":
        status["message"] = {"role": "ROLE_AGENT", "parts": [{"text": "no idea"}]}
    if mode != "no task":
        (here / "t-1.task").write_text(json.dumps(task))
elif command == "tasks":
    assert len(os.environ["WENDY_AGENT_TOKEN"]) >= 16
    print(json.dumps({"tasks": [{k: t[k] for k in ("id", "status")} for t in tasks()]}))
elif command == "get":
    print(json.dumps(next(t for t in tasks() if t["id"] == options["--task"])))
"""


class RunTest(unittest.TestCase):
    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.dir = Path(scratch.name)
        self.program = self.dir / "stand-in"
        self.program.write_text(f"#!{sys.executable}\n{STAND_IN}")
        self.program.chmod(0o755)

    def start(self, mode: str, *extra: str) -> subprocess.Popen[str]:
        programs = ("--agent-service", str(self.program), "--sensor-bridge", str(self.program))
        temporary = self.dir / "tmp"
        temporary.mkdir()
        env = os.environ | {
            "STAND_IN_DIR": str(self.dir),
            "STAND_IN_MODE": mode,
            "TMPDIR": str(temporary),
            "WENDY_AGENT_TOKEN": "short",
        }
        return subprocess.Popen(
            [sys.executable, str(RUN), *programs, *extra],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=env,
        )

    def end(self, demo: subprocess.Popen[str]) -> tuple[int, str, str]:
        out, err = demo.communicate(timeout=TIMEOUT)
        self.assertNotIn("Traceback", err)
        # A killed process may take a moment to be gone on a busy machine.
        limit = time.monotonic() + TIMEOUT
        while any(map(alive, self.pids())) and time.monotonic() < limit:
            time.sleep(0.02)
        for pid in self.pids():
            self.assertFalse(alive(pid), f"process {pid} was left behind")
        self.assertEqual(list((self.dir / "tmp").iterdir()), [], "the state was left behind")
        return demo.returncode, out, err

    def pids(self) -> list[int]:
        path = self.dir / "pids"
        return [int(line) for line in path.read_text().split()] if path.exists() else []

    def test_completed_task_is_printed_with_its_artifact(self) -> None:
        code, out, err = self.end(self.start("works"))
        self.assertEqual(code, 0, err)
        task: dict[str, Any] = json.loads(out)
        self.assertEqual(task["status"]["state"], "TASK_STATE_COMPLETED")
        self.assertEqual(task["artifacts"][0]["parts"][0]["text"], "saw a person")
        self.assertIn("1 observations, the last with 0.93", err)

    def test_every_other_end_is_exit_1_with_the_reason(self) -> None:
        cases = {
            "no task": "no task was made",
            "fails": "task t-1 ended FAILED: no idea",
            "stuck": "the time limit of 2 s passed; tasks made: 1, ended: 0",
            "service ends": "agent-service ended early with exit code 1.\n  | the disk is full",
            "bridge ends": "sensor-bridge ended early with exit code 1.\n  | no such source",
        }
        for mode, reason in cases.items():
            with self.subTest(mode=mode):
                self.setUp()
                code, _, err = self.end(self.start(mode, "--limit", "2"))
                self.assertEqual(code, 1)
                self.assertIn(f"The demo failed: {reason}", err)

    def test_a_program_that_is_not_there(self) -> None:
        demo = self.start("works", "--agent-service", str(self.dir / "missing"))
        code, _, err = self.end(demo)
        self.assertEqual(code, 1)
        self.assertIn("agent-service cannot be started", err)

    def test_interrupt_leaves_nothing_behind(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(signal=number):
                self.setUp()
                demo = self.start("stuck")
                until = time.monotonic() + TIMEOUT
                while len(self.pids()) < 3 and time.monotonic() < until:
                    time.sleep(0.05)
                demo.send_signal(number)
                code, _, err = self.end(demo)
                self.assertEqual(code, 130)
                self.assertIn("interrupted", err)


def alive(pid: int) -> bool:
    """A killed orphan may wait for init to collect it; that is not alive."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


if __name__ == "__main__":
    unittest.main()

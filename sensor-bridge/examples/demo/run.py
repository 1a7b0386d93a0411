#!/usr/bin/env python3
"""The whole way once: detections -> sensor-bridge -> trigger -> durable task -> agent -> artifact.

`make run` replays the committed recording of the camera worker, with its times shifted to now;
`--live` (`make run-camera`) runs the worker itself. Both start the two programs on a temporary
state directory with a random token, show what happens on stderr, print every task with its
artifact as JSON on stdout, and end by themselves: exit 0 when all tasks completed, otherwise
1 with the reason in a sentence. Whatever happens, no started program is left behind.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import importlib.util
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any, NoReturn

HERE = Path(__file__).resolve().parent
AGENT_CONFIG = HERE.parents[2] / "agent-service" / "examples" / "demo.json"
WORKER = HERE.parent / "camera-worker" / "camera_worker.py"
RECORDING = WORKER.with_name("recording.jsonl")
SOURCE = "front-camera"
LIVE_URL = f"http://127.0.0.1:8790/{SOURCE}"  # where bridge-live.yaml listens

READY_SECONDS = 30
STOP_SECONDS = 15  # more than the service's own grace
LOG_LINES = 10
TERMINAL = {"COMPLETED", "FAILED", "CANCELED", "REJECTED"}


class Failed(Exception):
    """The demo did not work; the text is what the person at the terminal reads."""


class Interrupted(Exception):
    """Somebody asked the demo to stop."""


class Interrupt:
    """Remembers a signal until `pause`, the one place where the demo waits: an exception from
    a handler could come between the start of a program and the note that it must be stopped."""

    def __init__(self) -> None:
        self.asked = False
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._ask)

    def _ask(self, *_: object) -> None:
        self.asked = True

    def pause(self, seconds: float) -> None:
        time.sleep(seconds)
        if self.asked:
            raise Interrupted


class Program:
    """A started program in a process group of its own, with its output in files: a file never
    fills up as a pipe does, and is there to quote from when the program ends early."""

    def __init__(self, name: str, command: list[str], env: dict[str, str], logs: Path) -> None:
        self.name = name
        self.stdout = logs / f"{name}.out"
        self.stderr = logs / f"{name}.err"
        with self.stdout.open("wb") as out, self.stderr.open("wb") as err:
            try:
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=err,
                    env=env,
                    start_new_session=True,
                )
            except OSError as error:
                raise Failed(f"{name} cannot be started: {error}") from error

    def exit_code(self) -> int | None:
        return self._process.poll()

    def fail(self, what: str) -> NoReturn:
        """Ends the demo with what this program said last."""
        lines = self.stderr.read_text(errors="replace").splitlines()[-LOG_LINES:]
        said = "".join(f"\n  | {line}" for line in lines) or " It said nothing."
        raise Failed(f"{self.name} {what}.{said}")

    def check_running(self) -> None:
        code = self.exit_code()
        if code is not None:
            self.fail(f"ended early with exit code {code}")

    def stop(self) -> None:
        """SIGTERM to the group, and SIGKILL to what is left of it."""
        self._signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(STOP_SECONDS)
        self._signal(signal.SIGKILL)
        self._process.wait()

    def _signal(self, number: signal.Signals) -> None:
        # Either error says that the group is gone; the second is how macOS says it.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)


class Display:
    """Progress on stderr: one line that changes on a terminal, else a line every ten seconds."""

    EVERY_SECONDS = 10

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._shown_at = -float(self.EVERY_SECONDS)
        self._width = 0

    def news(self, text: str) -> None:
        self._write(f"{text}\n")

    def progress(self, text: str) -> None:
        if self._terminal:
            self._write(text)
            self._width = len(text)
        elif time.monotonic() - self._shown_at >= self.EVERY_SECONDS:
            self._shown_at = time.monotonic()
            self._write(f"{text}\n")

    def _write(self, text: str) -> None:
        wipe = f"\r{' ' * self._width}\r" if self._width else ""
        self._width = 0
        sys.stderr.write(wipe + text)
        sys.stderr.flush()


class Service:
    """The client side of agent-service: its own command line, as a user has it."""

    def __init__(self, binary: str, url: str, env: dict[str, str]) -> None:
        self._binary, self._url, self._env = binary, url, env

    def wait_until_ready(self, program: Program, interrupt: Interrupt) -> None:
        address = self._url.removeprefix("http://")
        until = time.monotonic() + READY_SECONDS
        while time.monotonic() < until:
            program.check_running()
            connection = http.client.HTTPConnection(address, timeout=2)
            try:
                connection.request("GET", "/readyz")
                if connection.getresponse().status == 200:
                    return
            except (OSError, http.client.HTTPException):
                pass  # not yet
            finally:
                connection.close()
            interrupt.pause(0.1)
        program.fail(f"was not ready within {READY_SECONDS} s")

    def tasks(self) -> list[dict[str, Any]]:
        """All tasks, in the order in which they were last changed."""
        tasks = self._call("tasks")["tasks"]
        return sorted(tasks, key=lambda task: task["status"].get("timestamp", ""))

    def get(self, task_id: str) -> dict[str, Any]:
        return self._call("get", "--task", task_id)

    def _call(self, *arguments: str) -> dict[str, Any]:
        command = [self._binary, *arguments, "--url", self._url, "--output", "json"]
        try:
            done = subprocess.run(
                command, env=self._env, capture_output=True, text=True, timeout=30, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Failed(f"`agent-service {arguments[0]}` did not work: {error}") from error
        if done.returncode != 0:
            raise Failed(f"`agent-service {arguments[0]}` did not work: {done.stderr.strip()}")
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer


class Observations:
    """What `sensor-bridge replay` wrote to its stdout so far: the events, one a line."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.count = 0
        self.last: dict[str, Any] = {}

    def read(self) -> None:
        *complete, _ = self._path.read_bytes().split(b"\n")
        self.count = len(complete)
        if complete:
            self.last = json.loads(complete[-1])

    def __str__(self) -> str:
        self.read()
        if not self.last:
            return f"{self.count} observations"
        return f"{self.count} observations, the last with {self.last.get('confidence')}"


def state_of(task: dict[str, Any]) -> str:
    state: str = task["status"]["state"]
    return state.removeprefix("TASK_STATE_")


def text_of(task: dict[str, Any]) -> str:
    """The artifact of a completed task, the status message of any other."""
    artifacts = task.get("artifacts") or [task["status"].get("message") or {}]
    parts = [part for artifact in artifacts for part in artifact.get("parts", [])]
    return " ".join(part.get("text", "") for part in parts)


def report(display: Display, service: Service, task_ids: list[str]) -> None:
    """Prints the tasks; the last word on whether the demo worked."""
    if not task_ids:
        raise Failed("no task was made: no observation satisfied the trigger")
    tasks = [service.get(task_id) for task_id in task_ids]
    for task in tasks:
        print(json.dumps(task, indent=2), flush=True)
    for task in tasks:
        if state_of(task) != "COMPLETED":
            raise Failed(f"task {task['id']} ended {state_of(task)}: {text_of(task)}")
        display.news(f"the agent: {text_of(task)}")
    display.news(f"done: {len(tasks)} of {len(tasks)} tasks completed")


def recording_seconds() -> float:
    """From the first frame of the recording to its last."""
    _, first, *_, last = RECORDING.read_text(encoding="utf-8").splitlines()
    times = (json.loads(line)["timestamp"].replace("Z", "+00:00") for line in (first, last))
    begin, end = (datetime.fromisoformat(text) for text in times)
    return (end - begin).total_seconds()


def free_ports() -> tuple[int, int]:
    """Two ports of this machine that nobody uses now."""
    with socket.socket() as one, socket.socket() as other:
        one.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        return one.getsockname()[1], other.getsockname()[1]


def environment(url: str, status_port: int) -> dict[str, str]:
    """Ours, without settings of the two programs that would make it another demo."""
    foreign = ("AGENT_SERVICE__", "SENSOR_BRIDGE__", "WENDY_AGENT_TOKEN", "SENSOR_BRIDGE_TOKEN")
    env = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    return env | {
        "WENDY_AGENT_TOKEN": secrets.token_hex(32),
        "SENSOR_BRIDGE_TOKEN": secrets.token_hex(32),
        "SENSOR_BRIDGE__SERVICE__URL": url,
        "SENSOR_BRIDGE__STATUS__LISTEN": f"127.0.0.1:{status_port}",
    }


class Demo:
    """One run. `programs` is all that must be stopped, whatever happened."""

    def __init__(self, args: argparse.Namespace, scratch: Path, interrupt: Interrupt) -> None:
        port, status_port = free_ports()
        self._args, self._scratch, self._interrupt = args, scratch, interrupt
        self._url = f"http://127.0.0.1:{port}"
        self._env = environment(self._url, status_port)
        self._service = Service(args.agent_service, self._url, self._env)
        self._display = Display()
        self.programs: list[Program] = []

    def run(self) -> None:
        serve = self._start(
            "agent-service",
            self._args.agent_service,
            "serve",
            *("--config", str(AGENT_CONFIG)),
            *("--state-dir", str(self._scratch / "state")),
            *("--listen", self._url.removeprefix("http://")),
        )
        self._service.wait_until_ready(serve, self._interrupt)
        self._display.news(f"agent-service is ready on {self._url}")
        task_ids = self._live() if self._args.live else self._replay(serve)
        report(self._display, self._service, task_ids)

    def stop(self) -> None:
        """The last started first: what feeds a program goes before the program."""
        for program in reversed(self.programs):
            program.stop()

    def _replay(self, serve: Program) -> list[str]:
        """Replays the recording at its own speed; over when the replay is and all tasks ended."""
        bridge = self._start(
            "sensor-bridge",
            self._args.sensor_bridge,
            "replay",
            str(RECORDING),
            *("--config", str(HERE / "bridge.yaml")),
            *("--source", SOURCE),
            *("--speed", "1"),
            "--shift-to-now",
            "--post",
        )
        length = recording_seconds()
        self._display.news(f"sensor-bridge replays {length:.0f} s of recorded detections")
        observations = Observations(bridge.stdout)

        def check() -> bool:
            serve.check_running()
            if bridge.exit_code() == 0:
                return True
            bridge.check_running()
            return False

        def progress(passed: float) -> str:
            return f"{min(passed, length):3.0f} s of {length:.0f} s replayed; {observations}"

        task_ids = self._watch(check, progress)
        self._display.news(f"the replay is over: {observations}")
        return task_ids

    def _live(self) -> list[str]:
        """Runs the worker and the bridge; over when the first task ended."""
        if any(importlib.util.find_spec(module) is None for module in ("cv2", "skimage")):
            raise Failed(
                "the live worker needs its packages (OpenCV, scikit-image): use `make run-camera`"
            )
        self._start(
            "sensor-bridge",
            self._args.sensor_bridge,
            *("run", "--config", str(HERE / "bridge-live.yaml")),
        )
        self._start("camera-worker", sys.executable, str(WORKER), "--post", LIVE_URL)
        self._display.news(f"the camera worker posts to sensor-bridge on {LIVE_URL}")

        def check() -> bool:
            for program in self.programs:
                program.check_running()
            return False

        return self._watch(check, lambda passed: f"{passed:3.0f} s of live camera")

    def _watch(self, check: Callable[[], bool], progress: Callable[[float], str]) -> list[str]:
        """Follows the tasks until all ended; their IDs.

        `check` raises when a program ended early, and says whether the input is over. It is
        asked before the tasks are: the last observation may make one. A live input is never
        over; there one task is enough."""
        begin = time.monotonic()
        states: dict[str, str] = {}
        while True:
            over = check()
            tasks = self._service.tasks()
            for task in tasks:
                if states.get(task["id"]) != state_of(task):
                    states[task["id"]] = state_of(task)
                    self._display.news(f"task {task['id']}: {state_of(task)}")
            enough = over or (self._args.live and tasks)
            if enough and all(state_of(task) in TERMINAL for task in tasks):
                return [task["id"] for task in tasks]
            passed = time.monotonic() - begin
            if passed > self._args.limit:
                ended = sum(state_of(task) in TERMINAL for task in tasks)
                raise Failed(
                    f"the time limit of {self._args.limit:g} s passed; "
                    f"tasks made: {len(tasks)}, ended: {ended}"
                )
            self._display.progress(f"{progress(passed)}; tasks: {len(tasks)}")
            self._interrupt.pause(0.5)

    def _start(self, name: str, *command: str) -> Program:
        program = Program(name, list(command), self._env, self._scratch)
        self.programs.append(program)
        return program


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Runs the demo; `make run` builds it first.")
    parser.add_argument("--agent-service", required=True, metavar="BIN", type=os.path.abspath)
    parser.add_argument("--sensor-bridge", required=True, metavar="BIN", type=os.path.abspath)
    parser.add_argument("--live", action="store_true", help="the worker instead of its recording")
    parser.add_argument(
        "--limit", type=float, default=180, metavar="SECONDS", help="give up after this time (180)"
    )
    return parser.parse_args()


def main() -> int:
    args = arguments()
    interrupt = Interrupt()
    with tempfile.TemporaryDirectory(prefix="agent-demo-", ignore_cleanup_errors=True) as scratch:
        demo = Demo(args, Path(scratch), interrupt)
        try:
            demo.run()
            return 0
        except (Failed, Interrupted) as error:
            # A client command that got the same Ctrl-C fails too; that is no reason of its own.
            if interrupt.asked:
                print("\nThe demo was interrupted.", file=sys.stderr)
                return 130
            print(f"\nThe demo failed: {error}", file=sys.stderr)
            return 1
        finally:
            demo.stop()


if __name__ == "__main__":
    sys.exit(main())

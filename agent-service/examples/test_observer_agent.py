"""Drives observer_agent.py as agent-service does, over pipes.

python3 -m unittest test_observer_agent.py
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import unittest
from pathlib import Path
from typing import Any

AGENT = Path(__file__).with_name("observer_agent.py")
HELLO = {"v": 1, "kind": "hello", "agent": "x", "key": "default", "schedule": "trigger"}
EVENT = {
    "id": "e-1",
    "type": "person.detected",
    "source": "front-camera",
    "timestamp": "2026-09-16T10:00:03.066Z",
    "confidence": 0.934,
    "data": {"box": [251, 23, 64, 64]},
}
SENTENCE = (
    "front-camera saw a person at 10:00:03 UTC on 2026-09-16 with confidence 0.93, "
    "64 x 64 pixels large at 251, 23."
)
TIMEOUT = 10


def environment(**extra: str) -> dict[str, str]:
    """Ours without what a surrounding agent run may have set."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AGENT_")}
    return kept | extra


def request(payload: Any, **fields: Any) -> dict[str, Any]:
    trigger = {"source": "event", "session_id": "event-1", "payload": payload}
    return {"v": 1, "kind": "request", "id": "1", "agent": "x", "trigger": trigger} | fields


def exchange(*lines: Any, **extra: str) -> list[dict[str, Any]]:
    """Sends the lines (objects, or bytes as they are), ends stdin, and returns the answers."""
    sent = b"".join(
        (line if isinstance(line, bytes) else json.dumps(line).encode()) + b"\n" for line in lines
    )
    done = subprocess.run(
        [sys.executable, AGENT],
        input=sent,
        capture_output=True,
        env=environment(**extra),
        timeout=TIMEOUT,
        check=False,
    )
    if done.returncode != 0:
        raise AssertionError(f"exit {done.returncode}: {done.stderr.decode()}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def once(payload: str | None) -> subprocess.CompletedProcess[str]:
    extra = {"AGENT_TRIGGER_SOURCE": "event", "AGENT_SESSION_ID": "event-1"}
    if payload is not None:
        extra["AGENT_TRIGGER_PAYLOAD"] = payload
    return subprocess.run(
        [sys.executable, AGENT],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env=environment(**extra),
        timeout=TIMEOUT,
        check=False,
    )


class PersistentTest(unittest.TestCase):
    def test_the_pipe_test_of_the_protocol_page(self) -> None:
        answers = exchange(
            b'{"v":1,"kind":"hello","agent":"x","key":"default"}',
            b'{"v":1,"kind":"request","id":"1","deadline_seconds":30,"trigger":'
            b'{"source":"cli","session_id":"manual-1","payload":{"text":"hi"}}}',
        )
        self.assertEqual([a["kind"] for a in answers], ["ready", "response"])
        self.assertEqual(answers[1]["id"], "1")

    def test_event_becomes_a_sentence(self) -> None:
        ready, response = exchange(
            HELLO, request({"text": "p", "event": EVENT}), AGENT_LIFECYCLE="persistent"
        )
        self.assertEqual(ready, {"v": 1, "kind": "ready", "ok": True})
        self.assertEqual(
            response, {"v": 1, "kind": "response", "id": "1", "ok": True, "output": SENTENCE}
        )

    def test_it_remembers_between_requests(self) -> None:
        later = EVENT | {"timestamp": "2026-09-16T10:00:43.066Z"}
        answers = exchange(HELLO, request({"event": EVENT}), request({"event": later}, id="2"))
        self.assertIn("The time before was 40 s earlier.", answers[2]["output"])

    def test_offset_and_absent_fields(self) -> None:
        event = EVENT | {"timestamp": "2026-09-16T00:30:00.123456789+02:00", "type": "door.open"}
        del event["confidence"], event["data"]
        self.assertEqual(
            exchange(request({"event": event}))[0]["output"],
            "front-camera reported door.open at 22:30:00 UTC on 2026-09-15.",
        )

    def test_a_box_that_is_none_is_left_out(self) -> None:
        for box in (None, [], [1, 2, 3], ["a", 1, 2, 3], [1, 2, 3, float("nan")], [10**400] * 4):
            with self.subTest(box=box):
                event = EVENT | {"data": {"box": box}}
                answer = exchange(request({"event": event}))[0]
                self.assertTrue(answer["output"].endswith("with confidence 0.93."))

    def test_text_request(self) -> None:
        answer = exchange(request({"text": "how are you?", "task_id": "t"}))[0]
        self.assertTrue(answer["ok"])
        self.assertIn("how are you?", answer["output"])
        self.assertIn("no sensor event", answer["output"])

    def test_odd_requests_fail_with_their_reason(self) -> None:
        cases = [
            ({}, "neither an event nor a text"),
            ({"text": "  "}, "neither an event nor a text"),
            ({"event": None}, "not an object"),
            ({"event": EVENT | {"source": 7}}, "source"),
            ({"event": EVENT | {"type": ""}}, "type"),
            ({"event": EVENT | {"timestamp": None}}, "timestamp"),
            ({"event": EVENT | {"timestamp": "2026-09-16T10:00:03"}}, "offset"),
            ({"event": EVENT | {"timestamp": "2026-13-16T10:00:03Z"}}, "no time"),
            ({"event": EVENT | {"timestamp": "0001-01-01T00:00:00+10:00"}}, "no time"),
            ({"event": EVENT | {"confidence": True}}, "confidence"),
            ({"event": EVENT | {"confidence": 1.5}}, "confidence"),
            ({"event": EVENT | {"confidence": float("nan")}}, "confidence"),
            ("text", "no trigger with a payload"),
        ]
        answers = exchange(*(request(payload) for payload, _ in cases))
        self.assertEqual(len(answers), len(cases))
        for answer, (payload, reason) in zip(answers, cases, strict=True):
            with self.subTest(payload=payload):
                self.assertIs(answer["ok"], False)
                self.assertIn(reason, answer["error"])
                self.assertNotIn("output", answer)

    def test_bad_lines_are_dropped_and_the_next_request_is_answered(self) -> None:
        bad = [b"", b"not json", b"[]", b"7", b"\xff\xfe", b'{"kind":"dance"}', b"[" * 100_000]
        answers = exchange(HELLO, *bad, request({"event": EVENT}, id="after"))
        self.assertEqual([a["kind"] for a in answers], ["ready", "response"])
        self.assertEqual(answers[1]["id"], "after")

    def test_a_request_without_id_is_answered_without_id(self) -> None:
        asked = request({"event": EVENT})
        del asked["id"]
        self.assertNotIn("id", exchange(asked)[0])

    def test_request_without_trigger(self) -> None:
        asked = request({})
        del asked["trigger"]
        self.assertIs(exchange(asked)[0]["ok"], False)

    def test_answers_at_once_and_ends_on_sigterm(self) -> None:
        with subprocess.Popen(
            [sys.executable, AGENT],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment(AGENT_LIFECYCLE="persistent"),
        ) as agent:
            assert agent.stdin is not None and agent.stdout is not None
            agent.stdin.write(json.dumps(HELLO).encode() + b"\n")
            agent.stdin.flush()
            self.assertTrue(json.loads(agent.stdout.readline())["ok"])
            agent.send_signal(signal.SIGTERM)
            self.assertEqual(agent.wait(TIMEOUT), 0)


class OneShotTest(unittest.TestCase):
    def test_event_from_the_environment(self) -> None:
        done = once(json.dumps({"text": "p", "event": EVENT}))
        self.assertEqual((done.returncode, done.stdout), (0, SENTENCE + "\n"))

    def test_text_that_is_no_unicode(self) -> None:
        done = once('{"text": "\\ud800"}')
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_what_it_cannot_answer_is_exit_1_with_the_reason(self) -> None:
        for payload in (None, "{", "[]", json.dumps({"event": {}})):
            with self.subTest(payload=payload):
                done = once(payload)
                self.assertEqual(done.returncode, 1)
                self.assertNotEqual(done.stdout.strip(), "")
                self.assertNotIn("Traceback", done.stderr)


if __name__ == "__main__":
    unittest.main()

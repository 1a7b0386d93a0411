#!/usr/bin/env python3
"""An example of an agent that is a program of your own: it says what a sensor saw, and when.

agent-service starts it (see `runner` in demo.json) and hands it tasks, one JSON object a line:

    service -> agent   {"v":1,"kind":"hello","agent":"front-door-observer","key":"default",...}
    agent -> service   {"v":1,"kind":"ready","ok":true}
    service -> agent   {"v":1,"kind":"request","id":"1","trigger":{"source":"event",...},...}
    agent -> service   {"v":1,"kind":"response","id":"1","ok":true,"output":"..."}

stdout is the channel and carries nothing else; the log is stderr. The process lives on between
tasks, so it may keep what it learned: this one remembers when it last saw something, which a
program started anew for every task could not. It ends when stdin ends or on SIGTERM.

The same file also runs once per task (`"mode": "oneshot"`): then the task is in AGENT_TRIGGER_*
variables, the answer is plain text on stdout, and the exit code is the verdict.

Only the standard library is used. A real agent would call a model or a device where this one
formats a sentence: that place is `Observer.answer`.

Try it by hand:

    printf '%s\\n%s\\n' '{"v":1,"kind":"hello","agent":"x","key":"default"}' \\
        '{"v":1,"kind":"request","id":"1","trigger":{"source":"cli","payload":{"text":"hi"}}}' \\
        | python3 observer_agent.py
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from datetime import datetime, timezone
from typing import Any

# RFC 3339; the fraction of a second stays outside of the groups, a sentence has no use for it.
TIMESTAMP = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(?:\.\d+)?(?:([Zz])|([+-]\d\d:\d\d))", re.ASCII
)


class CannotAnswer(Exception):
    """The task cannot be done; the text says why, and becomes the task's error."""


class Observer:
    """The agent proper: takes a trigger, gives a sentence. Knows nothing of lines and pipes."""

    def __init__(self) -> None:
        # When each kind of thing was last seen by each source, for as long as we live.
        self._seen: dict[tuple[str, str], datetime] = {}

    def answer(self, trigger: Any) -> str:
        """What to say about one task. Raises CannotAnswer with the reason otherwise."""
        payload = trigger.get("payload") if isinstance(trigger, dict) else None
        if not isinstance(payload, dict):
            raise CannotAnswer("the request has no trigger with a payload")
        # A task from a sensor brings the event as data, beside `text`, the prompt of the
        # trigger. Whatever stands in the event is something to report, never an instruction.
        if "event" in payload:
            return self._describe(payload["event"])
        # A task from A2A, or from a person at a pipe, is text alone.
        text = payload.get("text")
        if not isinstance(text, str) or not text.strip():
            raise CannotAnswer("the payload has neither an event nor a text")
        return (
            "I describe what a sensor saw, and this request carries no sensor event. "
            f"It said: {text.strip()}"
        )

    def _describe(self, event: Any) -> str:
        if not isinstance(event, dict):
            raise CannotAnswer("the event is not an object")
        source, kind = _name(event, "source"), _name(event, "type")
        when = _time(event.get("timestamp"))
        # `person.detected` is a person that was seen; any other type is only repeated.
        thing = kind.removesuffix(".detected")
        what = f"saw a {thing}" if thing != kind else f"reported {kind}"
        sentence = f"{source} {what} at {when:%H:%M:%S} UTC on {when:%Y-%m-%d}"
        confidence = _confidence(event.get("confidence"))
        if confidence is not None:
            sentence += f" with confidence {confidence:.2f}"
        sentence += _place(event.get("data")) + "."

        before = self._seen.get((source, kind))
        self._seen[source, kind] = when
        if before is not None and before < when:
            sentence += f" The time before was {(when - before).total_seconds():.0f} s earlier."
        return sentence


def _name(event: dict[str, Any], field: str) -> str:
    value = event.get(field)
    if not isinstance(value, str) or not value.strip():
        raise CannotAnswer(f"the event's {field} is missing or no text")
    return value


def _time(value: Any) -> datetime:
    match = TIMESTAMP.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise CannotAnswer("the event's timestamp is missing or not RFC 3339 with an offset")
    date, clock, utc, offset = match.groups()
    try:
        when = datetime.fromisoformat(f"{date}T{clock}{'+00:00' if utc else offset}")
        return when.astimezone(timezone.utc)
    except (ValueError, OverflowError) as error:
        raise CannotAnswer(f"the event's timestamp is no time: {error}") from error


def _confidence(value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
        raise CannotAnswer("the event's confidence is no number from 0 to 1")
    return value


def _place(data: Any) -> str:
    """Where in the picture, for sources that say it as `box: [x, y, width, height]`."""
    box = data.get("box") if isinstance(data, dict) else None
    if not isinstance(box, list) or len(box) != 4:
        return ""
    if not all(isinstance(n, (int, float)) and -1e6 < n < 1e6 for n in box):
        return ""
    x, y, width, height = box
    return f", {width:g} x {height:g} pixels large at {x:g}, {y:g}"


def serve(observer: Observer) -> None:
    """The persistent protocol, until stdin ends."""
    # Bytes, so that a line that is not UTF-8 is one bad line and not the end of the reader.
    for raw in sys.stdin.buffer:
        try:
            message = json.loads(raw.decode())
        except (ValueError, RecursionError) as error:
            # Without an id there is nothing that an answer could belong to.
            log(f"dropped a line that is no JSON: {error}")
            continue
        kind = message.get("kind") if isinstance(message, dict) else None
        if kind == "hello":
            # Warm up here (load a model, open a connection) before saying `ready`; or say
            # {"ok": false, "error": "..."} when that fails.
            say({"v": 1, "kind": "ready", "ok": True})
        elif kind == "request":
            say(respond(observer, message))
        else:
            log(f"dropped a line that is neither hello nor request: kind {kind!r}")


def respond(observer: Observer, request: dict[str, Any]) -> dict[str, Any]:
    """The response to one request; it always has one, so that nobody waits for a deadline."""
    response: dict[str, Any] = {"v": 1, "kind": "response"}
    if "id" in request:
        response["id"] = request["id"]
    try:
        return response | {"ok": True, "output": observer.answer(request.get("trigger"))}
    except CannotAnswer as error:
        log(f"request {request.get('id')!r}: {error}")
        return response | {"ok": False, "error": str(error)}


def run_once(observer: Observer) -> int:
    """One task from the environment; the answer is stdout, or the reason and exit code 1."""
    try:
        payload = json.loads(os.environ.get("AGENT_TRIGGER_PAYLOAD", "null"))
    except (ValueError, RecursionError) as error:
        print(f"AGENT_TRIGGER_PAYLOAD is no JSON: {error}")
        return 1
    try:
        answer = observer.answer({"payload": payload})
    except CannotAnswer as error:
        print(error)
        return 1
    # A text of others may hold what no encoding can say; that is no reason to crash.
    sys.stdout.buffer.write((answer + "\n").encode(errors="backslashreplace"))
    return 0


def say(message: dict[str, Any]) -> None:
    # Flushed each time: a pipe is buffered, and the service waits for this line.
    print(json.dumps(message), flush=True)


def log(text: str) -> None:
    print(f"observer: {text}", file=sys.stderr, flush=True)


def main() -> int:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(0))
    persistent = os.environ.get("AGENT_LIFECYCLE") == "persistent"
    # Without either variable somebody tries the protocol by hand at a pipe.
    if not persistent and "AGENT_TRIGGER_SOURCE" in os.environ:
        return run_once(Observer())
    serve(Observer())
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""A small camera inference worker: real detector, real photographs, native JSON lines.

There is no camera in a repository, so the lens is a virtual one: it pans along a strip of
photographs that come inside the scikit-image wheel, zooms, shakes a little, and loses focus
now and then. Two of the photographs show a person (an astronaut facing the lens, and a
cameraman from the side); the others (bricks, a cup, gravel, a motorcycle, grass) are the
empty stretches between. The frames that come out go through a real detector: the Haar
cascades for frontal and profile faces that come inside the OpenCV wheel. Drop-outs, false
alarms and weak scores are the detector's own.

The seed moves the lens and its focus, so it changes the *images*. Nothing random touches a
box or a score.

From raw score to confidence
    `detectMultiScale3` returns for every grouped window the "level weight": by how much the
    best window of the group passed the last stage of the cascade. It is a margin without
    bounds, and its scale differs from cascade to cascade. A logistic makes it 0..1:

        confidence = 1 / (1 + exp(-(weight - middle) / width))

    `middle` is the weight that means "as likely a face as not" (confidence 0.5) and `width`
    says how fast the doubt goes away (confidence 0.88 at middle + 2 widths). Both are set
    per cascade in `CASCADES`, from the weights that the cascade gave on these photographs;
    README.md has the figures.

    A window that two cascades found is reported once, with the better confidence. Confidences
    are rounded to 3 decimals, boxes are whole pixels of the frame. Detections down to
    confidence 0.05 are reported: what is good enough is for sensor-bridge to decide.
"""

from __future__ import annotations

import argparse
import http.client
import json
import math
import os
import platform
import random
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TextIO
from urllib.parse import urlsplit

import cv2
import numpy as np
import skimage
from skimage import data as photographs

FRAMES_PER_SECOND = 15
FRAME_WIDTH, FRAME_HEIGHT = 320, 240
RECORDING_START = datetime(2026, 9, 16, 10, 0, 0, tzinfo=UTC)
DEFAULT_SEED = 7
DEFAULT_SOURCE = "front-camera"
MIN_CONFIDENCE = 0.05
STRIP_HEIGHT = 512

Box = tuple[int, int, int, int]  # left, top, width, height in pixels of the frame

# The strip from left to right; each is scaled to STRIP_HEIGHT.
STRIP = ("brick", "coffee", "astronaut", "gravel", "motorcycle_left", "camera", "grass")


@dataclass(frozen=True)
class Cascade:
    """One classifier of the OpenCV wheel and how its level weight becomes a confidence.

    `mirrored` runs it on the mirrored frame too: the profile cascade knows one side only.
    """

    file: str
    mirrored: bool
    middle: float
    width: float

    def confidence(self, weight: float) -> float:
        return 1 / (1 + math.exp(-(weight - self.middle) / self.width))


CASCADES = (
    Cascade("haarcascade_frontalface_default.xml", mirrored=False, middle=2.5, width=0.6),
    Cascade("haarcascade_profileface.xml", mirrored=True, middle=0.8, width=0.3),
)
SCALE_FACTOR = 1.1
MIN_NEIGHBORS = 2
MIN_FACE = 56
SAME_FACE_OVERLAP = 0.3


@dataclass(frozen=True)
class Waypoint:
    """Where the lens is at `second`: the photograph and the point in it (0..1) that it looks
    at, and how many pixels of the strip one frame is high (fewer is closer)."""

    second: float
    photograph: str
    x: float
    y: float
    view_height: float


ROUTE = (
    Waypoint(0, "brick", 0.5, 0.5, 330),
    Waypoint(4, "coffee", 0.4, 0.5, 360),
    Waypoint(7, "astronaut", 0.36, 0.40, 380),
    Waypoint(13, "astronaut", 0.46, 0.32, 260),
    Waypoint(19, "astronaut", 0.50, 0.42, 400),
    Waypoint(23, "gravel", 0.5, 0.5, 330),
    Waypoint(31, "gravel", 0.8, 0.4, 300),
    Waypoint(37, "motorcycle_left", 0.3, 0.5, 400),
    Waypoint(43, "motorcycle_left", 0.6, 0.5, 420),
    Waypoint(47, "camera", 0.42, 0.40, 380),
    Waypoint(53, "camera", 0.46, 0.34, 270),
    Waypoint(59, "camera", 0.50, 0.40, 360),
    Waypoint(63, "grass", 0.5, 0.5, 330),
    Waypoint(66, "grass", 0.6, 0.5, 330),
)


class Lens:
    """The virtual camera. `frame(i)` depends on the seed and `i` alone, never on what was
    asked before, so that a test can take any frame of a recording again."""

    def __init__(self, seed: int) -> None:
        self._strip, self._left, self._width = _strip()
        # random.Random gives the same numbers on every platform and Python version.
        rng = random.Random(seed)
        self._shake = [_Wobble(rng, 0.3, 2.0) for _ in range(2)]
        self._zoom = _Wobble(rng, 0.05, 0.3)
        self._focus = _Wobble(rng, 0.1, 0.9)

    def frame(self, index: int) -> np.ndarray:
        """The gray frame `index`; the route begins again when it is over."""
        second = index / FRAMES_PER_SECOND
        x, y, view_height = self._position(second)
        before = self._position(second - 1 / FRAMES_PER_SECOND)
        scale = FRAME_HEIGHT / view_height
        to_frame = np.array(
            [[scale, 0, FRAME_WIDTH / 2 - x * scale], [0, scale, FRAME_HEIGHT / 2 - y * scale]]
        )
        image = cv2.warpAffine(
            self._strip,
            to_frame,
            (FRAME_WIDTH, FRAME_HEIGHT),
            flags=cv2.INTER_LINEAR,
            borderMode=cv2.BORDER_REFLECT,
        )
        # Half of the way of one frame smears, as with an exposure of half the frame time.
        smear = int(abs(x - before[0]) * scale / 2)
        if smear > 1:
            image = cv2.blur(image, (smear, 1))
        defocus = 12.0 * max(0.0, self._focus(second) - 0.35)
        if defocus > 0.3:
            image = cv2.GaussianBlur(image, (0, 0), defocus)
        return image

    def _position(self, second: float) -> tuple[float, float, float]:
        """Centre and height of the view, in pixels of the strip."""
        length = ROUTE[-1].second
        at = second % length
        here = max(i for i, w in enumerate(ROUTE[:-1]) if w.second <= at)
        a, b = ROUTE[here], ROUTE[here + 1]
        share = (at - a.second) / (b.second - a.second)
        share = share * share * (3 - 2 * share)
        ax, bx = (self._left[w.photograph] + w.x * self._width[w.photograph] for w in (a, b))
        x = ax + (bx - ax) * share + 8 * self._shake[0](second)
        y = STRIP_HEIGHT * (a.y + (b.y - a.y) * share) + 5 * self._shake[1](second)
        height = (a.view_height + (b.view_height - a.view_height) * share) * (
            1 + 0.06 * self._zoom(second)
        )
        return x, y, height


class _Wobble:
    """A smooth function of time in -1..1: a few sines whose speeds and phases the seed picks."""

    def __init__(self, rng: random.Random, slow_hz: float, fast_hz: float) -> None:
        self._waves = [(rng.uniform(slow_hz, fast_hz), rng.uniform(0, math.tau)) for _ in range(4)]

    def __call__(self, second: float) -> float:
        total = sum(math.sin(math.tau * hz * second + phase) for hz, phase in self._waves)
        return total / len(self._waves)


def _strip() -> tuple[np.ndarray, dict[str, float], dict[str, float]]:
    """The photographs side by side in gray, with the left edge and the width of each."""
    left: dict[str, float] = {}
    width: dict[str, float] = {}
    images = []
    for name in STRIP:
        if name == "motorcycle_left":
            image = photographs.stereo_motorcycle()[0]
        else:
            image = getattr(photographs, name)()
        if image.ndim == 3:
            image = cv2.cvtColor(np.ascontiguousarray(image), cv2.COLOR_RGB2GRAY)
        wide = round(image.shape[1] * STRIP_HEIGHT / image.shape[0])
        image = cv2.resize(image, (wide, STRIP_HEIGHT), interpolation=cv2.INTER_AREA)
        left[name] = sum(width.values())
        width[name] = wide
        images.append(image)
    return np.hstack(images), left, width


class Detector:
    """Finds people by their faces, with the cascades of the OpenCV wheel."""

    def __init__(self) -> None:
        # One thread: the order of windows, and so their grouping, is then always the same.
        cv2.setNumThreads(1)
        self._cascades = [
            (cascade, cv2.CascadeClassifier(cv2.data.haarcascades + cascade.file))
            for cascade in CASCADES
        ]

    def detect(self, image: np.ndarray) -> list[dict[str, Any]]:
        """The detections of one gray frame in the native format, best first."""
        found = sorted(
            ((cascade.confidence(weight), box) for cascade, box, weight in self.windows(image)),
            reverse=True,
        )
        kept: list[tuple[float, Box]] = []
        for confidence, box in found:
            if confidence < MIN_CONFIDENCE:
                break
            if all(_overlap(box, other) < SAME_FACE_OVERLAP for _, other in kept):
                kept.append((confidence, box))
        return [
            {"label": "person", "confidence": round(c, 3), "data": {"box": list(box)}}
            for c, box in kept
        ]

    def windows(self, image: np.ndarray) -> Iterator[tuple[Cascade, Box, float]]:
        """Every grouped window of every cascade with its raw level weight."""
        for cascade, classifier in self._cascades:
            for mirrored in (False, True) if cascade.mirrored else (False,):
                seen = np.ascontiguousarray(image[:, ::-1]) if mirrored else image
                boxes, _, weights = classifier.detectMultiScale3(
                    seen,
                    scaleFactor=SCALE_FACTOR,
                    minNeighbors=MIN_NEIGHBORS,
                    minSize=(MIN_FACE, MIN_FACE),
                    outputRejectLevels=True,
                )
                for (x, y, w, h), weight in zip(boxes, weights, strict=True):
                    left = image.shape[1] - x - w if mirrored else x
                    yield cascade, (int(left), int(y), int(w), int(h)), float(weight)


def _overlap(a: Box, b: Box) -> float:
    """Intersection over union of two boxes."""
    across = min(a[0] + a[2], b[0] + b[2]) - max(a[0], b[0])
    down = min(a[1] + a[3], b[1] + b[3]) - max(a[1], b[1])
    if across <= 0 or down <= 0:
        return 0.0
    shared = across * down
    return shared / (a[2] * a[3] + b[2] * b[3] - shared)


class Lines:
    """Writes lines to a stream: the recording, or stdout for a bridge that reads a pipe."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def send(self, line: str) -> None:
        self._stream.write(line + "\n")
        self._stream.flush()


class Refused(Exception):
    """The bridge answered, and its answer will not change by trying again."""


class Post:
    """Posts each line to the `listen` transport of sensor-bridge over one kept connection.

    A frame that cannot be delivered is gone: a late frame is worth less than the next one.
    The bridge may start later or restart; until it answers, one attempt a second is made.
    """

    RETRY_SECONDS = 1.0
    TIMEOUT_SECONDS = 5.0

    def __init__(self, url: str, token: str) -> None:
        parts = urlsplit(url)
        kinds = {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection}
        if parts.scheme not in kinds or not parts.hostname or parts.path in ("", "/"):
            raise ValueError(f"--post needs http(s)://HOST:PORT/SOURCE, not {url!r}")
        self._path = parts.path
        self._connection = kinds[parts.scheme](
            parts.hostname, parts.port, timeout=self.TIMEOUT_SECONDS
        )
        self._headers = {
            "Authorization": f"Bearer {token}",
            "Content-Type": "application/x-ndjson",
        }
        self._retry_at = 0.0
        self._lost = 0

    def send(self, line: str) -> None:
        if time.monotonic() < self._retry_at:
            self._lost += 1
            return
        try:
            self._connection.request("POST", self._path, line.encode() + b"\n", self._headers)
            response = self._connection.getresponse()
            text = response.read().decode(errors="replace").strip()
        except (OSError, http.client.HTTPException) as error:
            if self._lost == 0:
                log(f"the bridge does not answer ({error}); trying again every second")
            self._connection.close()
            self._lost += 1
            self._retry_at = time.monotonic() + self.RETRY_SECONDS
            return
        if 400 <= response.status < 500:
            raise Refused(f"the bridge refused a frame: {response.status} {text}")
        if response.status >= 500:
            log(f"the bridge failed on a frame: {response.status} {text}")
        if self._lost:
            log(f"the bridge answers; {self._lost} frames were lost")
            self._lost = 0


def frame_line(timestamp: datetime, source: str, detections: list[dict[str, Any]]) -> str:
    """One frame in the native format of sensor-bridge, as one line of JSON."""
    utc = timestamp.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    frame = {"timestamp": utc, "source": source, "detections": detections}
    return json.dumps(frame, separators=(",", ":"))


def header_line(seed: int, seconds: float) -> str:
    """The first line of a recording: what it takes to make the same recording again."""
    command = f"python camera_worker.py --record recording.jsonl --seed {seed}"
    if seconds != ROUTE[-1].second:
        command += f" --seconds {seconds:g}"
    header = {
        "command": command,
        "python": platform.python_version(),
        "opencv": cv2.__version__,
        "scikit_image": skimage.__version__,
        "numpy": np.__version__,
        "images": STRIP,
        "seed": seed,
        "frames_per_second": FRAMES_PER_SECOND,
        "frame_size": [FRAME_WIDTH, FRAME_HEIGHT],
        "detector": {
            "cascades": [asdict(cascade) for cascade in CASCADES],
            "scale_factor": SCALE_FACTOR,
            "min_neighbors": MIN_NEIGHBORS,
            "min_face": MIN_FACE,
            "same_face_overlap": SAME_FACE_OVERLAP,
            "min_confidence": MIN_CONFIDENCE,
        },
        "rounding": "confidence: 3 decimals; box: whole pixels; time: milliseconds, cut",
    }
    return json.dumps({"recording": header}, separators=(",", ":"))


def record(path: str, seed: int, source: str, seconds: float) -> None:
    """Writes a recording as fast as the detector goes, with times from RECORDING_START."""
    lens, detector = Lens(seed), Detector()
    with open(path, "w", encoding="utf-8") as stream:
        stream.write(header_line(seed, seconds) + "\n")
        for index in range(round(seconds * FRAMES_PER_SECOND)):
            timestamp = RECORDING_START + timedelta(seconds=index / FRAMES_PER_SECOND)
            detections = detector.detect(lens.frame(index))
            stream.write(frame_line(timestamp, source, detections) + "\n")
    log(f"wrote {index + 1} frames to {path}")


def live(send: Callable[[str], None], seed: int, source: str, seconds: float | None) -> None:
    """Sends frames at the pace of a camera. A detector that falls behind skips frames, as it
    would with a camera, so that what it reports is always about now."""
    lens, detector = Lens(seed), Detector()
    started, started_at = time.monotonic(), datetime.now(UTC)
    index = 0
    while seconds is None or index < seconds * FRAMES_PER_SECOND:
        due = index / FRAMES_PER_SECOND
        time.sleep(max(0.0, started + due - time.monotonic()))
        detections = detector.detect(lens.frame(index))
        send(frame_line(started_at + timedelta(seconds=due), source, detections))
        index = max(index + 1, int((time.monotonic() - started) * FRAMES_PER_SECOND))


def log(text: str) -> None:
    print(f"camera-worker: {text}", file=sys.stderr, flush=True)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Runs a people detector over a virtual camera and emits native JSON lines.",
        epilog="Without --record and --post the lines go to stdout.",
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--record", metavar="FILE", help="write a recording, as fast as possible")
    where.add_argument(
        "--post",
        metavar="URL",
        help="post to a listening sensor-bridge, http://HOST:PORT/SOURCE; "
        "the token is taken from SENSOR_BRIDGE_TOKEN",
    )
    parser.add_argument("--seed", type=int, default=DEFAULT_SEED, help="moves lens and focus")
    parser.add_argument("--source", default=DEFAULT_SOURCE, help="the camera's name in each frame")
    parser.add_argument(
        "--seconds",
        type=float,
        help="how much to emit (default: one round of the route with --record, else no end)",
    )
    return parser.parse_args()


def main() -> int:
    args = arguments()
    if args.record:
        record(args.record, args.seed, args.source, args.seconds or ROUTE[-1].second)
        return 0
    if args.post:
        token = os.environ.get("SENSOR_BRIDGE_TOKEN", "")
        if not token:
            log("--post needs the bridge's token in the variable SENSOR_BRIDGE_TOKEN")
            return 2
        try:
            send = Post(args.post, token).send
        except ValueError as error:
            log(str(error))
            return 2
    else:
        send = Lines(sys.stdout).send
    try:
        live(send, args.seed, args.source, args.seconds)
    except Refused as error:
        log(str(error))
        return 1
    except BrokenPipeError:
        # The reader of the pipe is gone; point stdout elsewhere so that Python's own flush
        # at exit does not complain about it again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())

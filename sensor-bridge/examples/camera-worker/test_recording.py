"""The committed recording is what the worker's detector says about the worker's frames.

Run inside an environment with requirements.txt installed:

    python -m unittest test_recording.py

Tolerance: the same number of detections in a frame, every edge of a box within 3 pixels, every
confidence within 0.03. With the pinned packages on the same kind of processor the result is
equal; processors with other vector instructions round differently inside OpenCV.
"""

from __future__ import annotations

import json
import unittest
from pathlib import Path
from typing import Any

import camera_worker

RECORDING = Path(__file__).with_name("recording.jsonl")
SAMPLES = 30
PIXELS = 3
CONFIDENCE = 0.03
HIGH = 0.85


def best(frame: dict[str, Any]) -> float:
    return max((d["confidence"] for d in frame["detections"]), default=0.0)


class RecordingTest(unittest.TestCase):
    header: dict[str, Any]
    frames: list[dict[str, Any]]

    @classmethod
    def setUpClass(cls) -> None:
        first, *rest = RECORDING.read_text(encoding="utf-8").splitlines()
        cls.header = json.loads(first)["recording"]
        cls.frames = [json.loads(line) for line in rest]

    def test_header_names_what_the_worker_is_now(self) -> None:
        seconds = len(self.frames) / camera_worker.FRAMES_PER_SECOND
        now = json.loads(camera_worker.header_line(self.header["seed"], seconds))["recording"]
        # Packages are pinned in requirements.txt; the Python that runs the test is not.
        now["python"] = self.header["python"]
        self.assertEqual(now, self.header)

    def test_detector_gives_the_recorded_boxes_and_scores(self) -> None:
        lens = camera_worker.Lens(self.header["seed"])
        detector = camera_worker.Detector()
        chosen = range(0, len(self.frames), len(self.frames) // SAMPLES)[:SAMPLES]
        highs = sum(best(self.frames[index]) >= HIGH for index in chosen)
        empty = sum(not self.frames[index]["detections"] for index in chosen)
        self.assertGreaterEqual(highs, 8, "the sample must cover the people")
        self.assertGreaterEqual(empty, 8, "the sample must cover the empty stretches")
        for index in chosen:
            with self.subTest(frame=index):
                recorded = self.frames[index]["detections"]
                again = detector.detect(lens.frame(index))
                self.assert_close(recorded, again)

    def assert_close(self, recorded: list[dict[str, Any]], again: list[dict[str, Any]]) -> None:
        self.assertEqual(len(recorded), len(again), f"{recorded} became {again}")
        # By place, since two weak scores may change their order within the tolerance.
        recorded, again = (
            sorted(found, key=lambda d: d["data"]["box"]) for found in (recorded, again)
        )
        for old, new in zip(recorded, again, strict=True):
            self.assertEqual(old["label"], new["label"])
            self.assertAlmostEqual(old["confidence"], new["confidence"], delta=CONFIDENCE)
            (ax, ay, aw, ah), (bx, by, bw, bh) = old["data"]["box"], new["data"]["box"]
            edges = ((ax, bx), (ay, by), (ax + aw, bx + bw), (ay + ah, by + bh))
            for was, is_now in edges:
                self.assertLessEqual(abs(was - is_now), PIXELS, f"{old} became {new}")

    def test_recording_is_paced_and_long_enough(self) -> None:
        self.assertGreaterEqual(len(self.frames), 60 * camera_worker.FRAMES_PER_SECOND)
        times = [frame["timestamp"] for frame in self.frames]
        self.assertEqual(times, sorted(set(times)), "one time per frame, rising")

    def test_two_people_come_and_go_with_drop_outs(self) -> None:
        """A presence is a stretch of high frames without 2 s of quiet; a drop-out is a low
        frame inside of one."""
        rate = camera_worker.FRAMES_PER_SECOND
        highs = [index for index, frame in enumerate(self.frames) if best(frame) >= HIGH]
        presences: list[list[int]] = []
        for index in highs:
            if not presences or index - presences[-1][-1] > 2 * rate:
                presences.append([])
            presences[-1].append(index)
        self.assertEqual(len(presences), 2)
        first, second = presences
        for presence in presences:
            self.assertGreater(presence[-1] - presence[0], 10 * rate)
            self.assertLess(len(presence), presence[-1] - presence[0] + 1, "no drop-out")
        self.assertGreater(second[0] - first[0], 30 * rate, "the cooldown must be over")


if __name__ == "__main__":
    unittest.main()

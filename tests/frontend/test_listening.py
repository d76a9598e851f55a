# SPDX-License-Identifier: Apache-2.0
"""examples/listen says the words that its rule, written again in Python, finds in the reference's outputs."""

from __future__ import annotations

import re
import subprocess
import sys
import wave
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from tests.frontend.pushing import expected
from tests.frontend.test_recordings import write_wav
from tests.ops.sanitized import SANITIZE, WARNINGS
from tests.package.tools import needed, ran
from tinyc.board import load_board
from tinyc.frontend import load_frontend
from tinyc.options.build import Options
from tinyc.pipeline.compiling import compile_model
from tinyc.pipeline.progress import Progress

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import example_numbers  # noqa: E402  a script

LISTEN = example_numbers.LISTEN


@dataclass(frozen=True)
class Rule:
    """The parameters of listen.h."""

    outputs: int
    words: int
    hop_ms: int
    mean_of: int
    threshold_percent: int
    rest_ms: int


def rule(**changed: int) -> Rule:
    text = (LISTEN / "listen.h").read_text(encoding="utf-8")
    constants = {name.lower(): int(value) for name, value in re.findall(r"^#define LISTEN_(\w+) (\d+)$", text, re.M)}
    return Rule(**(constants | changed))


def heard(rule: Rule, outputs: Iterable[npt.NDArray[np.int8]]) -> list[tuple[int, int, int]]:
    """(output, word, percent) of each word that counts."""
    last: list[npt.NDArray[np.int64]] = []
    words_heard: list[tuple[int, int, int]] = []
    silent_until = 0
    for k, scores in enumerate(outputs):
        last = [*last, scores.reshape(-1).astype(np.int64) + 128][-rule.mean_of :]
        sums = np.sum(last, axis=0)
        word = int(sums.argmax())
        percent = int(100 * sums[word] // (256 * rule.mean_of))
        if word < rule.words and percent >= rule.threshold_percent and k * rule.hop_ms >= silent_until:
            words_heard.append((k, word, percent))
            silent_until = k * rule.hop_ms + rule.rest_ms
    return words_heard


MAIN = """
#include <stdio.h>
#include "listen.h"
int main(void)
{
    int8_t scores[LISTEN_OUTPUTS];
    listen_t listen;
    int32_t percent;
    listen_reset(&listen);
    for (int k = 0; fread(scores, 1, sizeof scores, stdin) == sizeof scores; k++) {
        const int32_t word = listen_next(&listen, scores, &percent);
        if (word != LISTEN_NOTHING) {
            printf("%d %d %d\\n", k, (int)word, (int)percent);
        }
    }
    return 0;
}
"""


@pytest.mark.parametrize(
    "changed", [{}, {"mean_of": 1, "rest_ms": 0}, {"mean_of": 13, "threshold_percent": 30, "rest_ms": 250}]
)
def test_the_rule_in_c_is_the_one_in_python(changed: dict[str, int], tmp_path: Path) -> None:
    """On outputs that dwell on a class, of any sharpness, full scale and ties among them."""
    rng = np.random.default_rng(5)
    near = rng.integers(-128, 40, (3000, 12))
    near[np.arange(3000), np.repeat(rng.integers(0, 12, 300), 10)] += 120
    outputs = np.clip(near, -128, 127).astype(np.int8)
    outputs[:40], outputs[40:80] = 127, -128
    (tmp_path / "main.c").write_text(MAIN)
    defined = [f"-DLISTEN_{name.upper()}={value}" for name, value in changed.items()]
    files = ["main.c", str(LISTEN / "listen.c"), f"-I{LISTEN}"]
    ran("gcc", "-std=c99", *WARNINGS, *SANITIZE, *defined, *files, "-o", "listen", cwd=tmp_path)
    done = subprocess.run([tmp_path / "listen"], input=outputs.tobytes(), capture_output=True, check=True)
    said = [tuple(map(int, line.split())) for line in done.stdout.decode().splitlines()]
    by_python = heard(rule(**changed), outputs)
    assert said == by_python
    assert len(by_python) > 20


BAD = {
    "rate": lambda path: write_wav(path, np.zeros(1600, np.int16), rate=8000),
    "channels": lambda path: write_wav(path, np.zeros(1600, np.int16), channels=2),
    "text": lambda path: path.write_text("no recording at all, but a text"),
    "nothing": lambda path: path.write_bytes(b""),
}


@pytest.mark.slow
def test_the_example_says_the_words_on_a_computer_and_on_a_board(tmp_path: Path) -> None:
    """Both programs, the twin and the page say the same; recordings that do not fit are errors."""
    for program in ("cmake", "arm-none-eabi-gcc", "qemu-system-arm"):
        needed(program)
    here, board = example_numbers.listen_programs(tmp_path)
    said = ran(*here, cwd=tmp_path)
    assert ran(*board, cwd=tmp_path) == said
    assert example_numbers.as_block(said) == example_numbers.STATED["heard"].stated(), "run scripts/example_numbers.py"
    assert said == _twin()
    for name, make in BAD.items():
        make(tmp_path / f"{name}.wav")
        done = subprocess.run([here[0], tmp_path / f"{name}.wav"], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout[:5]) == (1, "error")
    whole = example_numbers.RECORDING.read_bytes()
    (tmp_path / "cut.wav").write_bytes(whole[: len(whole) // 2 + 1])
    assert said.startswith(ran(here[0], tmp_path / "cut.wav", cwd=tmp_path))


def _twin() -> str:
    """What the programs print, by the reference's outputs on the features of the Python function."""
    path, toml = example_numbers.KWS / "kws.onnx", str(example_numbers.KWS / "mfcc.toml")
    front = load_frontend(toml)
    with wave.open(str(example_numbers.RECORDING)) as file:
        samples = np.frombuffer(file.readframes(file.getnframes()), np.int16)
    compiled = compile_model(path, load_board("host"), Options("host"), Progress())
    outputs = expected(compiled.graph, front, samples, compiled.program.numerics)
    names = re.search(r"NAMES\[LISTEN_WORDS\] = {(.*)}", (LISTEN / "recording.c").read_text(encoding="utf-8"))
    assert names is not None
    labels = re.findall(r'"(\w+)"', names[1])
    step, hop, frames = front.step, front.hop * front.step, 49
    first = front.window + (-(-frames // front.hop) * front.hop - 1) * step  # samples until the window is full
    return "".join(
        f"{(first + k * hop) // 160 / 100:.2f} s  {labels[word]}  {percent} %\n"
        for k, word, percent in heard(rule(), outputs)
    )

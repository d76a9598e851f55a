#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the keyword-spotting example: kws.onnx, kws.calib.npz, kws.test.npz and words.wav.

Speech comes from espeak-ng, features from tinyc's front end in mfcc.toml, whose integers the device computes too; the
network is a small DS-CNN trained with PyTorch on the CPU. Everything random hangs on --seed. README.md beside this file
says what came out.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import subprocess
import time
import wave
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import torch
from scipy.signal import resample_poly
from torch import nn

import tinyc

Audio = npt.NDArray[np.float64]
Samples = npt.NDArray[np.int16]
Features = npt.NDArray[np.float32]
Labels = npt.NDArray[np.int64]
Noise = Callable[[np.random.Generator], Audio]

FRONT_FILE = Path(__file__).with_name("mfcc.toml")
SCRIPT_HASH = hashlib.sha256(Path(__file__).read_bytes() + FRONT_FILE.read_bytes()).hexdigest()[:12]
FRONT = tinyc.frontend(str(FRONT_FILE))

RATE_HZ = 16000
CLIP = RATE_HZ  # samples in a clip: one second
ESPEAK_RATE_HZ = 22050
FRAMES, COEFFS = 49, 10
SPOKEN = ("yes", "left", "stop", "up", "go", "no")  # in words.wav
WORD_S = 1.25  # from the beginning of a word to that of the next
FEATURE_STEP = 1 / 32  # features are rounded to this, which keeps the npz files small


def words(text: str) -> tuple[str, ...]:
    """The words of a text."""
    return tuple(text.split())


KEYWORDS = words("yes no up down left right on off stop go")
CLASSES = (*KEYWORDS, "silence", "unknown")
UNKNOWN_TRAINED = words(
    "zero one two three four five six seven eight nine bed bird cat dog happy house tree wow yet low cup "
    "town laugh light stock goat note lift ride top open own cough yellow away table water music "
    "apple baby black blue green red white day night good bad hello thanks please start wait home door lamp fan "
    "play pause next back less more hot warm fast slow big small book chair window garden river"
)
UNKNOWN_NEW = words("backward learn follow visual dawn yell nose loft step rice cold pup")

# A variant is a speaker: pitch, formants and voicing. No held-out speaker has the formants of a trained one, and
# each has its first three between 85 % and 140 % of the standard voice's; what lies outside sounds hardly human
# and is only trained on. Accents are those espeak-ng names by voice file: with an alias such as "en-gb" it drops
# the variant and says nothing.
TRAIN_SPEAKERS = words(
    "m1 m2 m3 m5 m6 m7 f1 f2 f4 belinda Alicia Annie grandma Alex Denis Gene Mario Mike antonio boris ed "
    "robert max klatt2 edward croak gustave travis shelby Marco david Michael marcelo"
)
CALIB_SPEAKERS = words("linda iven benjamin pablo quincy")
TEST_SPEAKERS = words("m4 m8 f3 Andrea steph anika paul victor sandro pedro")
ACCENTS = words("en en-us en-us-nyc en-029 en-gb-scotland en-gb-x-rp en-gb-x-gbclan en-gb-x-gbcwmd")

SNR_DB = (10.0, 14.0, 18.0, 22.0, 30.0)


@dataclass(frozen=True, slots=True)
class Split:
    """A data set: who speaks, what the `unknown` class says, clips per class in CLASSES' order."""

    number: int
    speakers: tuple[str, ...]
    unknown: tuple[str, ...]
    clips: tuple[int, ...]
    stretch: float = 0.0  # frequencies of an utterance are scaled by up to 1 +- stretch: more speakers


SPLITS = {
    "train": Split(0, TRAIN_SPEAKERS, UNKNOWN_TRAINED, (1500,) * 10 + (1000, 4000), stretch=0.12),
    "calib": Split(1, CALIB_SPEAKERS, UNKNOWN_TRAINED, (10,) * 10 + (12, 16)),
    "test": Split(2, TEST_SPEAKERS, UNKNOWN_TRAINED[::4] + UNKNOWN_NEW, (40,) * 12),
}


# ---- speech


def say(voice: str, word: str, words_per_minute: int, pitch: int) -> bytes:
    """The wav file of one word. Raises SystemExit when espeak-ng is missing or fails."""
    command = ["espeak-ng", "-v", voice, "-s", str(words_per_minute), "-p", str(pitch), "--stdout", word]
    try:
        return subprocess.run(command, capture_output=True, check=True).stdout
    except FileNotFoundError:
        raise SystemExit("error: espeak-ng not found\n  hint: apt install espeak-ng") from None
    except subprocess.CalledProcessError as error:
        raise SystemExit(f"error: {' '.join(command)}: {error.stderr.decode()}") from None


def check_voices(splits: Sequence[Split]) -> None:
    """Proves that no two voices (accent+speaker) in use are the same voice.

    espeak-ng falls back to the plain accent, with exit code 0, when it does not know a variant; held-out
    speakers would then be the trained ones under another name. Raises SystemExit naming two equal voices.
    """
    voices = {f"{accent}+{speaker}" for accent in ACCENTS for split in splits for speaker in split.speakers}
    voices |= set(ACCENTS)
    heard: dict[str, str] = {}
    for voice in sorted(voices):
        digest = hashlib.sha256(say(voice, " ".join(KEYWORDS), 150, 45)).hexdigest()
        if digest in heard:
            raise SystemExit(f"error: espeak-ng has one voice for {voice!r} and {heard[digest]!r}")
        heard[digest] = voice


def trimmed(audio: Audio, threshold: float = 0.01) -> Audio:
    """The audio without the quiet samples (below threshold of the peak) at both ends."""
    loud = np.flatnonzero(np.abs(audio) > threshold * np.max(np.abs(audio)))
    return audio[loud[0] : loud[-1] + 1]


def utterance(split: Split, word: str, rng: np.random.Generator) -> Audio:
    """One word by a random speaker of the split, 16 kHz, trimmed, RMS 1."""
    voice = f"{rng.choice(ACCENTS)}+{rng.choice(split.speakers)}"
    wav = say(voice, word, words_per_minute=int(rng.integers(110, 221)), pitch=int(rng.integers(25, 76)))
    with wave.open(io.BytesIO(wav)) as reader:
        if reader.getframerate() != ESPEAK_RATE_HZ:
            raise SystemExit(f"error: {voice}: {reader.getframerate()} Hz instead of {ESPEAK_RATE_HZ}")
        # --stdout cannot seek back to write the true length, the header's is too large: take what is there.
        samples = np.frombuffer(reader.readframes(len(wav)), dtype="<i2").astype(np.float64)
    up = round(320 * (1 + split.stretch * rng.uniform(-1, 1)))
    audio = trimmed(resample_poly(samples, up, 441))  # 22050 * 320 / 441 = 16000
    return audio / rms(audio)


def placed(audio: Audio, rng: np.random.Generator) -> Audio:
    """The audio at a random place in a clip; what is longer than a clip loses both ends alike."""
    if len(audio) > CLIP:
        start = (len(audio) - CLIP) // 2
        return audio[start : start + CLIP]
    clip = np.zeros(CLIP)
    start = int(rng.integers(0, CLIP - len(audio) + 1))
    clip[start : start + len(audio)] = audio
    return clip


# ---- noise


def rms(audio: Audio) -> float:
    """Root mean square."""
    return float(np.sqrt(np.mean(audio * audio)))


def colored(exponent: float) -> Noise:
    """A maker of noise, RMS 1, whose power falls with frequency**exponent: 0 white, 1 pink, 2 brown."""

    def noise(rng: np.random.Generator) -> Audio:
        spectrum = np.fft.rfft(rng.normal(size=CLIP))
        hz = np.maximum(np.fft.rfftfreq(CLIP, 1 / RATE_HZ), 20.0)  # flat below, or brown were all rumble
        audio = np.fft.irfft(spectrum * hz ** (-exponent / 2), CLIP)
        return audio / rms(audio)

    return noise


def babble(split: Split, rng: np.random.Generator, streams: int = 48, talkers: int = 5) -> Noise:
    """A maker of babble, RMS 1: some talkers at once, saying `unknown` words of the split without a pause."""
    tracks = [
        np.concatenate([utterance(split, str(rng.choice(split.unknown)), rng) for _ in range(5)])
        for _ in range(streams)
    ]

    def noise(rng: np.random.Generator) -> Audio:
        chosen = rng.choice(len(tracks), size=talkers, replace=False)
        audio = np.zeros(CLIP)
        for k in chosen:
            audio += np.resize(np.roll(tracks[k], int(rng.integers(len(tracks[k])))), CLIP)
        return audio / rms(audio)

    return noise


# ---- clips and features


def clip_of(label: str, split: Split, noises: Sequence[Noise], rng: np.random.Generator) -> Samples:
    """One second of the class `label` as a 16-bit converter would give it."""
    noise = noises[int(rng.integers(len(noises)))](rng)
    level = 10 ** (rng.uniform(-38, -18) / 20)
    if label == "silence":
        audio = level * rng.uniform(0.02, 1.0) * noise
    else:
        word = str(rng.choice(split.unknown)) if label == "unknown" else label
        speech = placed(utterance(split, word, rng), rng)
        audio = level * (speech + 10 ** (-float(rng.choice(SNR_DB)) / 20) * noise)
    return converted(audio, rng)


def converted(audio: Audio, rng: np.random.Generator) -> Samples:
    """What a 16-bit converter gives, with the noise floor of a microphone."""
    heard = audio + rng.normal(scale=1e-4, size=len(audio))
    return np.clip(np.round(heard * 32768), -32768, 32767).astype(np.int16)


def features(samples: Samples) -> Features:
    """MFCC of one clip: [FRAMES, COEFFS] float32, multiples of FEATURE_STEP: those of the device (mfcc.toml)."""
    return np.asarray(np.round(FRONT.features(samples) / FEATURE_STEP) * FEATURE_STEP, np.float32)


def spoken(split: Split, seed: int, said: Sequence[str]) -> Samples:
    """A recording of the words, one after the other, by speakers of the split, in pink noise 24 dB below."""
    rng = np.random.default_rng([seed, 3])
    audio = np.zeros(round((len(said) + 0.4) * WORD_S * RATE_HZ))
    for k, word in enumerate(said):
        speech = utterance(split, word, rng)[:CLIP]
        at = round((k + 0.4) * WORD_S * RATE_HZ)
        audio[at : at + len(speech)] += speech
    noise = np.concatenate([colored(1)(rng) for _ in range(-(-len(audio) // CLIP))])[: len(audio)]
    return converted(0.05 * (audio + 10 ** (-24 / 20) * noise), rng)


def dataset(split: Split, seed: int) -> tuple[Features, Labels]:
    """All clips of a split in random order: x [clips, 1, FRAMES, COEFFS], y [clips] (index into CLASSES)."""
    rng = np.random.default_rng([seed, split.number])
    y = rng.permutation(np.repeat(np.arange(len(CLASSES)), split.clips))
    noises = (colored(0), colored(1), colored(2), babble(split, rng))
    x = np.empty((len(y), 1, FRAMES, COEFFS), np.float32)
    for k, label in enumerate(y):
        x[k, 0] = features(clip_of(CLASSES[label], split, noises, rng))
    return x, y


def cached_dataset(name: str, seed: int, cache: Path | None) -> tuple[Features, Labels]:
    """dataset(SPLITS[name], seed), kept in the cache folder under a name that holds this script's hash."""
    if cache is None:
        return dataset(SPLITS[name], seed)
    file = cache / f"{name}-{seed}-{SCRIPT_HASH}.npz"
    if not file.exists():
        x, y = dataset(SPLITS[name], seed)
        cache.mkdir(parents=True, exist_ok=True)
        np.savez(file, x=x, y=y)
    with np.load(file, allow_pickle=False) as stored:
        return stored["x"], stored["y"]


# ---- network


class DsCnn(nn.Module):
    """[N, 1, 49, 10] -> class probabilities [N, 12]; 22 thousand weights, 2.7 million multiply-adds."""

    def __init__(self, channels: int = 64, blocks: int = 4) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, channels, (10, 4), 2, (5, 1), bias=False), *normed(channels))
        self.blocks = nn.Sequential(*(separable(channels) for _ in range(blocks)))
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.classify = nn.Linear(channels, len(CLASSES))

    def logits(self, x: torch.Tensor) -> torch.Tensor:
        """What training compares with the labels."""
        pooled = torch.flatten(self.pool(self.blocks(self.stem(x))), 1)
        scores: torch.Tensor = self.classify(nn.functional.dropout(pooled, 0.2, self.training))
        return scores

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.logits(x), dim=1)


def normed(channels: int) -> tuple[nn.Module, nn.Module]:
    """What follows each convolution."""
    return nn.BatchNorm2d(channels), nn.ReLU()


def separable(channels: int) -> nn.Sequential:
    """Depthwise 3x3, then pointwise 1x1, each with batch norm and ReLU."""
    depthwise = nn.Conv2d(channels, channels, 3, padding=1, groups=channels, bias=False)
    pointwise = nn.Conv2d(channels, channels, 1, bias=False)
    return nn.Sequential(depthwise, *normed(channels), pointwise, *normed(channels))


def varied(x: torch.Tensor) -> torch.Tensor:
    """x [N, 1, frames, coeffs] as other microphones and hiccups would give it, to train on.

    A constant is added to each coefficient of a clip (another frequency response), and up to 8 frames in a
    row become the clip's mean frame.
    """
    count, _, frames, coeffs = x.shape
    spread = torch.std(x, dim=(0, 1, 2))
    changed = x + 0.3 * spread * torch.randn(count, 1, 1, coeffs)
    first, length = torch.randint(frames, (count, 1, 1, 1)), torch.randint(9, (count, 1, 1, 1))
    frame = torch.arange(frames).view(1, 1, frames, 1)
    hidden = (frame >= first) & (frame < first + length)
    return torch.where(hidden, changed.mean(dim=2, keepdim=True), changed)


def train(x: Features, y: Labels, seed: int, epochs: int, batch: int = 64) -> DsCnn:
    """The network after the last epoch; no other data choose when to stop."""
    torch.manual_seed(seed)
    model = DsCnn()
    inputs, targets = torch.from_numpy(x), torch.from_numpy(y)
    steps = epochs * (len(x) // batch)
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=1e-2)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.05)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=4e-3, total_steps=steps)
    for epoch in range(epochs):
        start_s, losses = time.monotonic(), 0.0
        order = torch.randperm(len(x))[: len(x) // batch * batch]
        for chosen in torch.split(order, batch):
            optimizer.zero_grad()
            loss = criterion(model.logits(varied(inputs[chosen])), targets[chosen])
            loss.backward()
            optimizer.step()
            schedule.step()
            losses += float(loss.detach())
        loss_mean, seconds = losses * batch / len(order), time.monotonic() - start_s
        print(f"epoch {epoch + 1}/{epochs}: loss {loss_mean:.3f}, {seconds:.0f} s", flush=True)
    return model.eval()


# ---- files


def export(model: DsCnn, path: Path) -> None:
    """Writes the model as one ONNX file, opset 17, batch norm kept as its own nodes, batch size 1.

    The TorchScript exporter, because the newer one folds batch norm and stores paths of this machine.
    """
    torch.onnx.export(
        model,
        (torch.zeros(1, 1, FRAMES, COEFFS),),
        str(path),
        dynamo=False,
        opset_version=17,
        training=torch.onnx.TrainingMode.PRESERVE,  # EVAL would fold batch norm into the convolutions
        do_constant_folding=False,
        input_names=["mfcc"],
        output_names=["probabilities"],
    )
    onnx.checker.check_model(str(path), full_check=True)


def write_wav(path: Path, samples: Samples) -> None:
    """A file of 16 bits and one channel."""
    with wave.open(str(path), "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(2)
        writer.setframerate(RATE_HZ)
        writer.writeframes(samples.astype("<i2").tobytes())


def predictions(path: Path, x: Features) -> Labels:
    """The class that onnxruntime's float run of the model file finds for each x."""
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (name,) = (value.name for value in session.get_inputs())
    return np.array([np.argmax(session.run(None, {name: sample[None]})[0]) for sample in x])


def show(y: Labels, found: Labels) -> None:
    """Prints the accuracy, and of each class what its clips were taken for."""
    right = int(np.sum(found == y))
    print(f"test accuracy, float, onnxruntime: {right} of {len(y)} = {100 * right / len(y):.2f} %")
    for label, name in enumerate(CLASSES):
        counts = np.bincount(found[y == label], minlength=len(CLASSES))
        others = [k for k in np.argsort(-counts, kind="stable") if k != label and counts[k]]
        wrong = ", ".join(f"{CLASSES[k]} {counts[k]}" for k in others)
        print(f"  {name:8} {counts[label]:3} of {counts.sum()}  {wrong}")


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Make kws.onnx, kws.calib.npz, kws.test.npz, words.wav.")
    here = Path(__file__).parent
    parser.add_argument("-o", "--output", type=Path, default=here, help="folder for the four files")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=24)
    parser.add_argument("--threads", type=int, default=1, help="PyTorch's threads; the weights depend on it")
    parser.add_argument("--cache", type=Path, help="folder that keeps the features between runs")
    return parser.parse_args()


def main() -> None:
    """Makes the four files and prints the float accuracy on the test clips."""
    options = arguments()
    torch.set_num_threads(options.threads)
    torch.use_deterministic_algorithms(True)
    check_voices(list(SPLITS.values()))
    sets = {name: cached_dataset(name, options.seed, options.cache) for name in SPLITS}
    options.output.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(options.output / "kws.calib.npz", x=sets["calib"][0])
    x, y = sets["test"]
    np.savez_compressed(options.output / "kws.test.npz", x=x, y=y.astype(np.int32), labels=np.array(CLASSES))
    write_wav(options.output / "words.wav", spoken(SPLITS["test"], options.seed, SPOKEN))
    export(train(*sets["train"], options.seed, options.epochs), options.output / "kws.onnx")
    show(y, predictions(options.output / "kws.onnx", x))


if __name__ == "__main__":
    main()

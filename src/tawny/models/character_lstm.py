"""A text model that guesses the next character from a window of those before it."""

from __future__ import annotations

from tawny import nn
from tawny.array import Array


class CharacterLSTM(nn.Module):
    """Windows (batch, time) of characters' numbers to the scores (logits) of the next one.

    Embedding, LSTM, a dense layer with relu, and a linear one, with the sizes of the report's
    example; gradients flow through all of them.
    """

    def __init__(
        self,
        vocabulary: int,
        *,
        embedding: int = 40,
        hidden: int = 128,
        dense: int = 512,
        dtype: str = "float32",
    ) -> None:
        self.embedding = nn.Embedding(vocabulary, embedding, dtype=dtype)
        self.lstm = nn.LSTM(embedding, hidden, dtype=dtype)
        self.dense = nn.Linear(hidden, dense, activation="relu", dtype=dtype)
        self.output = nn.Linear(dense, vocabulary, dtype=dtype)

    def forward(self, x: Array) -> Array:
        scores: Array = self.output(self.dense(self.lstm(self.embedding(x))))
        return scores

"""Small networks of the report: one reads handwritten digits, one guesses the next character."""

from __future__ import annotations

from typing import Final

import tawny.numpy as np
from tawny import nn
from tawny.array import Array
from tawny.models.sizes import flatten_samples

DIGITS: Final = 10
POOLED: Final = 14


class Mnist(nn.Module):
    """Images (batch, 28, 28, 1) to the scores (logits) of ten digits.

    Convolution 5 x 5 relu, pooling 2 x 2, dropout, fully connected relu, linear.  Pixels are
    multiplied by `scale`: as they are from 0 to 255, to be within 1.
    """

    def __init__(
        self,
        *,
        filters: int = 32,
        hidden: int = 1024,
        dropout: float = 0.1,
        scale: float = 1 / 256,
        dtype: str = "float32",
    ) -> None:
        self.scale = scale
        self.dtype = dtype
        self.conv = nn.Conv2d(1, filters, 5, padding="same", activation="relu", dtype=dtype)
        self.pool = nn.MaxPool2d(2)
        self.dropout = nn.Dropout(dropout)
        self.dense = nn.Linear(POOLED**2 * filters, hidden, activation="relu", dtype=dtype)
        self.output = nn.Linear(hidden, DIGITS, dtype=dtype)
        self.flattened = {"dense": (POOLED, POOLED, filters)}

    def forward(self, x: Array) -> Array:
        images = np.astype(x, self.dtype)
        if self.scale != 1:
            images = images * self.scale
        pooled = self.dropout(self.pool(self.conv(images)))
        scores: Array = self.output(self.dense(flatten_samples(pooled)))
        return scores


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

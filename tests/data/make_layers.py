"""Makes `layers.npz` with PyTorch: outputs of single layers, and the names and shapes of their parameters.

python tests/data/make_layers.py
"""

from __future__ import annotations

import json

import numpy as np
import torch
from make_networks import HERE, image, loaded
from torch import nn

LAYERS = {
    "linear": (nn.Linear(5, 4), (3, 5)),
    "conv1d": (nn.Conv1d(3, 4, 3, 2, 1), (2, 9, 3)),
    "conv2d": (nn.Conv2d(4, 6, (3, 2), (2, 1), (1, 0), groups=2), (2, 7, 6, 4)),
    "conv3d": (nn.Conv3d(2, 3, 2, dilation=(1, 2, 1)), (2, 4, 5, 3, 2)),
    "conv_transpose2d": (nn.ConvTranspose2d(3, 5, 3, 2, 1), (2, 4, 5, 3)),
    "batch_norm": (nn.BatchNorm2d(3), (2, 4, 5, 3)),
    "layer_norm": (nn.LayerNorm((5, 3)), (2, 5, 3)),
    "group_norm": (nn.GroupNorm(2, 4), (2, 3, 5, 4)),
    "rnn": (nn.RNN(3, 4, batch_first=True), (2, 5, 3)),
    "lstm": (nn.LSTM(3, 4, batch_first=True), (2, 5, 3)),
    "gru": (nn.GRU(3, 4, batch_first=True), (2, 5, 3)),
    "attention": (nn.MultiheadAttention(6, 2, batch_first=True), (2, 5, 6)),
}


def output(name: str, layer: nn.Module, shape: tuple[int, ...]) -> np.ndarray:
    """What the layer gives for an input with channels last, with channels last."""
    x = torch.from_numpy(image(name, shape)).double()
    layer = layer.double()
    if name == "attention":
        return layer(x, x, x)[0].numpy()
    if name in ("rnn", "lstm", "gru"):
        return layer(x)[0].numpy()
    if name in ("linear", "layer_norm"):
        return layer(x).numpy()
    return layer(x.movedim(-1, 1)).movedim(1, -1).numpy()


def main() -> None:
    arrays: dict[str, np.ndarray] = {}
    for name, (layer, shape) in LAYERS.items():
        facts = {"input": shape, "parameters": loaded(layer)}
        with torch.no_grad():
            arrays[name] = output(name, layer, shape).astype(np.float32)
        arrays[f"{name}.json"] = np.frombuffer(json.dumps(facts).encode(), np.uint8)
    np.savez_compressed(HERE / "layers.npz", **arrays)


if __name__ == "__main__":
    main()

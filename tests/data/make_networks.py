"""Makes `networks.npz` with PyTorch: outputs of reduced networks, and the names and shapes of their parameters.

python tests/data/make_networks.py
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import torch
import torch_networks as nets

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from shared_weights import all_drawn, image  # noqa: E402

NETWORKS = {
    "mnist": (nets.Mnist(4, 16), (2, 28, 28, 1)),
    "vgg16": (nets.vgg16(1 / 16, 7, 64), (2, 64, 64, 3)),
    "squeezenet_1.0": (nets.SqueezeNet("1.0", 1 / 8, 7), (2, 67, 70, 3)),
    "squeezenet_1.1": (nets.SqueezeNet("1.1", 1 / 8, 7), (2, 67, 70, 3)),
    "resnet50_torchvision": (nets.ResNet((3, 4, 6, 3), 1 / 16, 7), (2, 65, 70, 3)),
    "resnet50_keras": (
        nets.ResNet((3, 4, 6, 3), 1 / 16, 7, early=True, bias=True, eps=1.001e-5),
        (2, 65, 70, 3),
    ),
    "resnet101_torchvision": (nets.ResNet((3, 4, 23, 3), 1 / 16, 7), (1, 64, 64, 3)),
    "inception_torchvision": (nets.InceptionV3(1 / 16, 7), (2, 91, 95, 3)),
    "inception_keras": (nets.InceptionV3(1 / 16, 7, counted=False), (2, 91, 95, 3)),
    "character_lstm": (nets.CharacterLSTM(11, 6, 8, 12), (3, 9)),
}


def loaded(network: torch.nn.Module) -> dict[str, tuple[int, ...]]:
    """Give a network its drawn weights; the names and shapes they have."""
    shapes = {n: tuple(v.shape) for n, v in network.state_dict().items() if "num_batches" not in n}
    values = {n: torch.from_numpy(v) for n, v in all_drawn(shapes).items()}
    network.load_state_dict(values, strict=False)
    network.eval()
    return shapes


def main() -> None:
    torch.set_num_threads(1)
    arrays: dict[str, np.ndarray] = {}
    for name, (network, shape) in NETWORKS.items():
        shapes = loaded(network)
        if len(shape) == 2:
            x = torch.from_numpy(np.random.default_rng(1).integers(0, 11, shape))
        else:
            x = torch.from_numpy(image(name, shape)).permute(0, 3, 1, 2)
        with torch.no_grad():
            arrays[name] = (
                network.double()(x.double() if x.is_floating_point() else x)
                .numpy()
                .astype(np.float32)
            )
        facts = {"input": shape, "parameters": shapes}
        arrays[f"{name}.json"] = np.frombuffer(json.dumps(facts).encode(), np.uint8)
        print(name, np.abs(arrays[name]).max(), arrays[name].std())
    np.savez_compressed(HERE / "networks.npz", **arrays)


if __name__ == "__main__":
    main()

"""Makes `mask_rcnn.npz` with PyTorch: what a narrow Mask R-CNN finds in an image of noise.

python tests/data/make_mask_rcnn.py
"""

from __future__ import annotations

import json

import numpy as np
import torch
from make_networks import HERE, image, loaded
from torch_mask_rcnn import MaskRCNN

SETTINGS = {
    "classes": 5,
    "depths": (1, 2, 2, 1),
    "width": 1 / 16,
    "candidates": 300,
    "proposals": 40,
    "detections": 12,
    "confidence": 0.3,
}
SHAPE = (1, 128, 192, 3)


def main() -> None:
    network = MaskRCNN(**SETTINGS)
    shapes = loaded(network)
    x = torch.from_numpy(image("mask_rcnn", SHAPE)).permute(0, 3, 1, 2)
    with torch.no_grad():
        found = network.double()(x.double())
    arrays = {n: v.numpy() for n, v in found.items()}
    arrays = {n: v.astype(np.float32) if v.dtype.kind == "f" else v for n, v in arrays.items()}
    facts = {"input": SHAPE, "settings": SETTINGS, "parameters": shapes}
    arrays["json"] = np.frombuffer(json.dumps(facts).encode(), np.uint8)
    print(arrays["boxes"], arrays["classes"], arrays["scores"], arrays["likely"].std(0))
    print(np.sort(arrays["likely"].max(1)))
    np.savez_compressed(HERE / "mask_rcnn.npz", **arrays)


if __name__ == "__main__":
    main()

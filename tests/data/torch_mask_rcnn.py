"""Mask R-CNN in PyTorch, one image at a time, with plain loops where the definition has them.

Regions are sampled by `grid_sample`; boxes are suppressed by comparing pairs.  It exists to make
`mask_rcnn.npz`; nothing else imports it.
"""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional as F
from torch_networks import ResNet


def conv_bn(inputs, outputs, kernel, padding=0):
    return nn.Conv2d(inputs, outputs, kernel, padding=padding), nn.BatchNorm2d(outputs, 1e-3)


class MaskRCNN(nn.Module):
    def __init__(self, depths, width, classes, candidates, proposals, detections, confidence):
        super().__init__()
        self.classes, self.candidates, self.proposals = classes, candidates, proposals
        self.detections, self.confidence = detections, confidence
        f, wide = int(256 * width), int(64 * width)
        self.backbone = ResNet(depths, width, 0, early=True, bias=True, eps=1e-3, same_pool=True)
        self.pyramid = nn.Module()
        self.pyramid.lateral = nn.ModuleList(nn.Conv2d(4 * wide * 2**i, f, 1) for i in range(4))
        self.pyramid.smooth = nn.ModuleList(nn.Conv2d(f, f, 3, padding=1) for _ in range(4))
        self.regions = nn.Module()
        self.regions.shared = nn.Conv2d(f, int(512 * width), 3, padding=1)
        self.regions.scores = nn.Conv2d(int(512 * width), 6, 1)
        self.regions.shifts = nn.Conv2d(int(512 * width), 12, 1)
        hidden = int(1024 * width)
        c = self.classifier = nn.Module()
        c.conv1, c.bn1 = conv_bn(f, hidden, 7)
        c.conv2, c.bn2 = conv_bn(hidden, hidden, 1)
        c.scores, c.shifts = nn.Linear(hidden, classes), nn.Linear(hidden, 4 * classes)
        pairs = [conv_bn(f, f, 3, 1) for _ in range(4)]
        self.masks = nn.Module()
        self.masks.convolutions = nn.ModuleList(p[0] for p in pairs)
        self.masks.norms = nn.ModuleList(p[1] for p in pairs)
        self.masks.upsample = nn.ConvTranspose2d(f, f, 2, 2)
        self.masks.output = nn.Conv2d(f, classes, 1)

    def levels(self, x):
        c2, c3, c4, c5 = self.backbone.maps(x)
        lateral = self.pyramid.lateral
        p5 = lateral[3](c5)
        p4 = lateral[2](c4) + F.interpolate(p5, scale_factor=2, mode="nearest")
        p3 = lateral[1](c3) + F.interpolate(p4, scale_factor=2, mode="nearest")
        p2 = lateral[0](c2) + F.interpolate(p3, scale_factor=2, mode="nearest")
        out = [s(p) for s, p in zip(self.pyramid.smooth, (p2, p3, p4, p5), strict=True)]
        return [*out, F.max_pool2d(out[-1], 1, 2)]

    def forward(self, x):
        rows, columns = x.shape[2:]
        levels = self.levels(x)
        scores, shifts, anchors = [], [], []
        for level, scale, stride in zip(
            levels, (32, 64, 128, 256, 512), (4, 8, 16, 32, 64), strict=True
        ):
            y = F.relu(self.regions.shared(level))
            scores.append(
                self.regions.scores(y).permute(0, 2, 3, 1).reshape(-1, 2).softmax(-1)[:, 1]
            )
            shifts.append(self.regions.shifts(y).permute(0, 2, 3, 1).reshape(-1, 4))
            for i in range(level.shape[2]):
                for j in range(level.shape[3]):
                    for ratio in (0.5, 1.0, 2.0):
                        h, w = scale / math.sqrt(ratio), scale * math.sqrt(ratio)
                        y0, x0 = i * stride, j * stride
                        anchors.append(
                            (
                                (y0 - h / 2) / (rows - 1),
                                (x0 - w / 2) / (columns - 1),
                                (y0 + h / 2 - 1) / (rows - 1),
                                (x0 + w / 2 - 1) / (columns - 1),
                            )
                        )
        scores, shifts = torch.cat(scores), torch.cat(shifts)
        boxes = moved(torch.tensor(anchors, dtype=x.dtype), shifts)
        best = torch.argsort(scores, descending=True, stable=True)[: self.candidates].tolist()
        kept = suppressed(boxes, best, 0.7, self.proposals)
        rois = torch.zeros(self.proposals, 4, dtype=x.dtype)
        rois[: len(kept)] = boxes[kept]

        c = self.classifier
        y = F.relu(c.bn1(c.conv1(crops(levels[:4], rois, 7, rows * columns))))
        y = F.relu(c.bn2(c.conv2(y))).flatten(1)
        likely = c.scores(y).softmax(-1)
        sure, kinds = likely.max(-1)
        own = c.shifts(y).reshape(-1, self.classes, 4)[torch.arange(len(kinds)), kinds]
        final = moved(rois, own)
        order = torch.argsort(sure, descending=True, stable=True).tolist()
        found = []
        for kind in range(1, self.classes):
            these = [
                i
                for i in order
                if kinds[i] == kind and sure[i] >= self.confidence and area(final[i]) > 0
            ]
            found += suppressed(final, these, 0.3, self.detections)
        found = [i for i in order if i in found][: self.detections]
        n = len(found)
        result = {
            "boxes": torch.zeros(self.detections, 4),
            "classes": torch.zeros(self.detections, dtype=torch.int64),
            "scores": torch.zeros(self.detections),
            "masks": torch.zeros(self.detections, 28, 28),
            "proposals": rois,
            "likely": likely,
        }
        result["boxes"][:n], result["classes"][:n], result["scores"][:n] = (
            final[found],
            kinds[found],
            sure[found],
        )
        m = self.masks
        y = crops(levels[:4], final[found], 14, rows * columns)
        for conv, norm in zip(m.convolutions, m.norms, strict=True):
            y = F.relu(norm(conv(y)))
        y = m.output(F.relu(m.upsample(y))).sigmoid()
        result["masks"][:n] = y[torch.arange(n), kinds[found]]
        return result


def area(box):
    return max(box[2] - box[0], 0) * max(box[3] - box[1], 0)


def moved(boxes, shifts):
    dy, dx, dh, dw = (shifts * torch.tensor([0.1, 0.1, 0.2, 0.2])).unbind(-1)
    top, left, bottom, right = boxes.unbind(-1)
    h, w = bottom - top, right - left
    cy, cx = top + 0.5 * h + dy * h, left + 0.5 * w + dx * w
    h, w = h * dh.exp(), w * dw.exp()
    return torch.stack([cy - 0.5 * h, cx - 0.5 * w, cy + 0.5 * h, cx + 0.5 * w], -1).clamp(0, 1)


def overlap(a, b):
    shared = max(min(a[2], b[2]) - max(a[0], b[0]), 0) * max(min(a[3], b[3]) - max(a[1], b[1]), 0)
    union = area(a) + area(b) - shared
    return shared / union if union > 0 else 0.0


def suppressed(boxes, order, threshold, count):
    """The places in `order` whose box overlaps none taken before it."""
    values, kept = boxes.tolist(), []
    for i in order:
        if len(kept) < count and all(overlap(values[i], values[k]) <= threshold for k in kept):
            kept.append(i)
    return kept


def crops(levels, boxes, size, pixels):
    """(n, channels, size, size): corners of the grid on the corners of the box."""
    steps = torch.linspace(0, 1, size, dtype=boxes.dtype)
    out = []
    for top, left, bottom, right in boxes.tolist():
        root = math.sqrt(max((bottom - top) * (right - left), 0.0))
        octave = round(math.log2(root / (224 / math.sqrt(pixels)))) if root else -9
        level = levels[min(3, max(0, 2 + octave))]
        ys, xs = top + (bottom - top) * steps, left + (right - left) * steps
        grid = torch.stack(torch.meshgrid(ys, xs, indexing="ij")[::-1], -1) * 2 - 1
        out.append(F.grid_sample(level, grid[None], align_corners=True)[0])
    return torch.stack(out)

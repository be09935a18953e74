"""Modules in the shapes that PyTorch's users write, and inputs for them."""

from __future__ import annotations

from typing import Final

import torch
import torch.nn.functional as F
from torch import nn


class Residual(nn.Module):
    def __init__(self, i, o, stride=1):
        super().__init__()
        self.a = nn.Conv2d(i, o, 3, stride, 1, bias=False)
        self.n = nn.BatchNorm2d(o)
        self.b = nn.Conv2d(o, o, 3, 1, 1, bias=False)
        self.m = nn.BatchNorm2d(o)
        self.d = (
            nn.Sequential(nn.Conv2d(i, o, 1, stride, bias=False), nn.BatchNorm2d(o))
            if stride > 1 or i != o
            else nn.Identity()
        )

    def forward(self, x):
        return F.relu(self.m(self.b(F.relu(self.n(self.a(x))))) + self.d(x))


class ResNet(nn.Module):
    def __init__(self, w=8, classes=10):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, w, 7, 2, 3, bias=False),
            nn.BatchNorm2d(w),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, 2, 1),
        )
        self.body = nn.Sequential(Residual(w, w), Residual(w, 2 * w, 2), Residual(2 * w, 4 * w, 2))
        self.fc = nn.Linear(4 * w, classes)

    def forward(self, x):
        return self.fc(torch.flatten(F.adaptive_avg_pool2d(self.body(self.stem(x)), 1), 1))


class InvertedResidual(nn.Module):
    def __init__(self, i, o, stride, t, act=nn.ReLU6, se=False):
        super().__init__()
        h = i * t
        self.net = nn.Sequential(
            nn.Conv2d(i, h, 1, bias=False),
            nn.BatchNorm2d(h),
            act(),
            nn.Conv2d(h, h, 3, stride, 1, groups=h, bias=False),
            nn.BatchNorm2d(h),
            act(),
        )
        self.se = (
            nn.Sequential(
                nn.AdaptiveAvgPool2d(1),
                nn.Conv2d(h, h // 4, 1),
                nn.SiLU(),
                nn.Conv2d(h // 4, h, 1),
                nn.Sigmoid(),
            )
            if se
            else None
        )
        self.out = nn.Sequential(nn.Conv2d(h, o, 1, bias=False), nn.BatchNorm2d(o))
        self.res = stride == 1 and i == o

    def forward(self, x):
        y = self.net(x)
        if self.se is not None:
            y = y * self.se(y)
        y = self.out(y)
        return x + y if self.res else y


def mobilenet(act=nn.ReLU6, se=False):
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, 2, 1, bias=False),
        nn.BatchNorm2d(8),
        act(),
        InvertedResidual(8, 8, 1, 2, act, se),
        InvertedResidual(8, 16, 2, 4, act, se),
        InvertedResidual(16, 16, 1, 4, act, se),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Dropout(0.0),
        nn.Linear(16, 10),
    )


class LayerNorm2d(nn.LayerNorm):
    def forward(self, x):
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class NeXt(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.dw = nn.Conv2d(d, d, 7, padding=3, groups=d)
        self.n = nn.LayerNorm(d)
        self.a = nn.Linear(d, 4 * d)
        self.b = nn.Linear(4 * d, d)
        self.g = nn.Parameter(1e-1 * torch.ones(d))

    def forward(self, x):
        y = self.dw(x).permute(0, 2, 3, 1)
        y = self.g * self.b(F.gelu(self.a(self.n(y))))
        return x + y.permute(0, 3, 1, 2)


def convnext():
    return nn.Sequential(
        nn.Conv2d(3, 16, 4, 4),
        LayerNorm2d(16),
        NeXt(16),
        NeXt(16),
        LayerNorm2d(16),
        nn.Conv2d(16, 32, 2, 2),
        NeXt(32),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.LayerNorm(32),
        nn.Linear(32, 10),
    )


class UNet(nn.Module):
    def __init__(self):
        super().__init__()

        def c(i, o):
            return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.GroupNorm(4, o), nn.SiLU())

        self.a = c(3, 8)
        self.b = c(8, 16)
        self.c = c(16, 32)
        self.up = nn.ConvTranspose2d(32, 16, 2, 2)
        self.d = c(32, 16)
        self.e = c(24, 8)
        self.out = nn.Conv2d(8, 2, 1)

    def forward(self, x):
        a = self.a(x)
        b = self.b(F.max_pool2d(a, 2))
        c = self.c(F.avg_pool2d(b, 2))
        d = self.d(torch.cat([self.up(c), b], 1))
        e = self.e(
            torch.cat(
                [F.interpolate(d, scale_factor=2, mode="bilinear", align_corners=False), a], 1
            )
        )
        return self.out(e)


class Block(nn.Module):
    def __init__(self, d, h, causal=False, pre=True):
        super().__init__()
        self.q = nn.Linear(d, 3 * d)
        self.o = nn.Linear(d, d)
        self.n = nn.LayerNorm(d)
        self.m = nn.LayerNorm(d)
        self.f = nn.Sequential(
            nn.Linear(d, 4 * d),
            nn.GELU(approximate="tanh" if causal else "none"),
            nn.Linear(4 * d, d),
        )
        self.h = h
        self.causal = causal
        self.pre = pre

    def attend(self, x, mask):
        b, t, d = x.shape
        q, k, v = self.q(x).view(b, t, 3, self.h, d // self.h).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, is_causal=self.causal and mask is None
        )
        return self.o(y.transpose(1, 2).reshape(b, t, d))

    def forward(self, x, mask=None):
        if self.pre:
            x = x + self.attend(self.n(x), mask)
            return x + self.f(self.m(x))
        x = self.n(x + self.attend(x, mask))
        return self.m(x + self.f(x))


class ViT(nn.Module):
    def __init__(self, d=32):
        super().__init__()
        self.p = nn.Conv2d(3, d, 8, 8)
        self.c = nn.Parameter(torch.zeros(1, 1, d))
        self.e = nn.Parameter(torch.randn(1, 17, d) * 0.02)
        self.b = nn.ModuleList([Block(d, 4) for _ in range(2)])
        self.n = nn.LayerNorm(d)
        self.h = nn.Linear(d, 10)

    def forward(self, x):
        x = self.p(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.c.expand(x.shape[0], -1, -1), x], 1) + self.e
        for b in self.b:
            x = b(x)
        return self.h(self.n(x)[:, 0])


class GPT(nn.Module):
    def __init__(self, v=50, d=32, t=16):
        super().__init__()
        self.w = nn.Embedding(v, d)
        self.p = nn.Embedding(t, d)
        self.b = nn.ModuleList([Block(d, 4, True) for _ in range(2)])
        self.n = nn.LayerNorm(d)
        self.h = nn.Linear(d, v, bias=False)
        self.h.weight = self.w.weight

    def forward(self, i):
        x = self.w(i) + self.p(torch.arange(i.shape[1]))
        for b in self.b:
            x = b(x)
        return self.h(self.n(x))


class BERT(nn.Module):
    def __init__(self, v=50, d=32, t=16):
        super().__init__()
        self.w = nn.Embedding(v, d, padding_idx=0)
        self.p = nn.Embedding(t, d)
        self.t = nn.Embedding(2, d)
        self.n = nn.LayerNorm(d, eps=1e-12)
        self.b = nn.ModuleList([Block(d, 4, pre=False) for _ in range(2)])
        self.pool = nn.Linear(d, d)
        self.c = nn.Linear(d, 3)

    def forward(self, i, m):
        x = self.n(self.w(i) + self.p(torch.arange(i.shape[1])) + self.t(torch.zeros_like(i)))
        mask = (1.0 - m[:, None, None, :].float()) * torch.finfo(torch.float32).min
        for b in self.b:
            x = b(x, mask)
        return self.c(torch.tanh(self.pool(x[:, 0])))


class RNN(nn.Module):
    def __init__(self, kind, **k):
        super().__init__()
        self.r = kind(12, 16, batch_first=True, **k)
        self.o = nn.Linear(32 if k.get("bidirectional") else 16, 5)

    def forward(self, x):
        y, _ = self.r(x)
        return self.o(y[:, -1])


class Cell(nn.Module):
    def __init__(self):
        super().__init__()
        self.c = nn.LSTMCell(12, 16)
        self.o = nn.Linear(16, 5)

    def forward(self, x):
        h = c = x.new_zeros(x.shape[0], 16)
        for t in range(x.shape[1]):
            h, c = self.c(x[:, t], (h, c))
        return self.o(h)


class Dense(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.ModuleList(
            [
                nn.Sequential(
                    nn.BatchNorm2d(8 + 8 * i), nn.ReLU(), nn.Conv2d(8 + 8 * i, 8, 3, padding=1)
                )
                for i in range(3)
            ]
        )
        self.i = nn.Conv2d(3, 8, 3, padding=1)
        self.o = nn.Linear(32, 10)

    def forward(self, x):
        f = [self.i(x)]
        for layer in self.l:
            f.append(layer(torch.cat(f, 1)))
        return self.o(torch.cat(f, 1).mean((2, 3)))


class Shuffle(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Conv2d(3, 16, 3, 2, 1)
        self.g = nn.Conv2d(8, 8, 1, groups=4)
        self.p = nn.PReLU(16)
        self.i = nn.InstanceNorm2d(16, affine=True)
        self.o = nn.Conv2d(16, 12, 1)
        self.s = nn.PixelShuffle(2)

    def forward(self, x):
        x = self.i(self.p(self.a(x)))
        a, b = x.chunk(2, 1)
        x = torch.cat([a, self.g(b)], 1)
        n, c, h, w = x.shape
        x = x.view(n, 2, c // 2, h, w).transpose(1, 2).reshape(n, c, h, w)
        return self.s(self.o(F.pad(x, (1, 1, 1, 1), mode="reflect")))


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.e = nn.Sequential(nn.Linear(20, 16), nn.Tanh(), nn.Linear(16, 8))
        self.d = nn.Sequential(nn.Linear(4, 16), nn.LeakyReLU(0.1), nn.Linear(16, 20), nn.Sigmoid())

    def forward(self, x):
        m, v = self.e(x).chunk(2, -1)
        z = m + torch.exp(0.5 * v) * torch.randn_like(v)
        return self.d(z), -0.5 * (1 + v - m * m - v.exp()).sum()


class WaveNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.i = nn.Conv1d(4, 8, 1)
        self.c = nn.ModuleList([nn.Conv1d(8, 16, 2, dilation=2**k) for k in range(3)])
        self.o = nn.ModuleList([nn.Conv1d(8, 8, 1) for k in range(3)])
        self.e = nn.Conv1d(8, 3, 1)

    def forward(self, x):
        x = self.i(x)
        for k, (c, o) in enumerate(zip(self.c, self.o, strict=True)):
            a, b = c(F.pad(x, (2**k, 0))).chunk(2, 1)
            x = x + o(torch.tanh(a) * torch.sigmoid(b))
        return self.e(x)


def r(*shape):
    return torch.randn(*shape)


MODELS: Final = {
    "mlp": (
        lambda: nn.Sequential(
            nn.Linear(20, 64),
            nn.ReLU(),
            nn.BatchNorm1d(64),
            nn.Dropout(0.3),
            nn.Linear(64, 32),
            nn.ELU(),
            nn.Linear(32, 10),
        ),
        lambda: (r(8, 20),),
    ),
    "lenet": (
        lambda: nn.Sequential(
            nn.Conv2d(1, 6, 5),
            nn.Tanh(),
            nn.AvgPool2d(2),
            nn.Conv2d(6, 16, 5),
            nn.Tanh(),
            nn.AvgPool2d(2),
            nn.Flatten(),
            nn.Linear(256, 10),
            nn.LogSoftmax(-1),
        ),
        lambda: (r(4, 1, 28, 28),),
    ),
    "vgg": (
        lambda: nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1),
            nn.ReLU(True),
            nn.Conv2d(8, 8, 3, padding=1),
            nn.ReLU(True),
            nn.MaxPool2d(2, 2, ceil_mode=True),
            nn.Flatten(),
            nn.Linear(8 * 16 * 16, 10),
        ),
        lambda: (r(2, 3, 31, 31),),
    ),
    "resnet": (ResNet, lambda: (r(2, 3, 64, 64),)),
    "mobilenet": (mobilenet, lambda: (r(2, 3, 32, 32),)),
    "efficientnet": (lambda: mobilenet(nn.SiLU, True), lambda: (r(2, 3, 32, 32),)),
    "mobilenetv3": (lambda: mobilenet(nn.Hardswish, True), lambda: (r(2, 3, 32, 32),)),
    "convnext": (convnext, lambda: (r(2, 3, 32, 32),)),
    "densenet": (Dense, lambda: (r(2, 3, 16, 16),)),
    "shufflenet": (Shuffle, lambda: (r(2, 3, 16, 16),)),
    "unet": (UNet, lambda: (r(1, 3, 32, 32),)),
    "vit": (ViT, lambda: (r(2, 3, 32, 32),)),
    "gpt": (GPT, lambda: (torch.randint(0, 50, (2, 16)),)),
    "bert": (
        BERT,
        lambda: (
            torch.randint(1, 50, (2, 16)),
            (torch.arange(16)[None] < torch.tensor([[16], [9]])).long(),
        ),
    ),
    "encoder": (
        lambda: nn.TransformerEncoder(
            nn.TransformerEncoderLayer(32, 4, 64, dropout=0.1, batch_first=True),
            2,
            enable_nested_tensor=False,
        ),
        lambda: (r(2, 10, 32),),
    ),
    "seq2seq": (
        lambda: nn.Transformer(32, 4, 1, 1, 64, dropout=0.0, batch_first=True),
        lambda: (r(2, 6, 32), r(2, 5, 32)),
    ),
    "lstm": (lambda: RNN(nn.LSTM), lambda: (r(3, 7, 12),)),
    "bilstm": (lambda: RNN(nn.LSTM, num_layers=2, bidirectional=True), lambda: (r(3, 7, 12),)),
    "gru": (lambda: RNN(nn.GRU), lambda: (r(3, 7, 12),)),
    "lstmcell": (Cell, lambda: (r(3, 7, 12),)),
    "vae": (VAE, lambda: (torch.rand(4, 20),)),
    "wavenet": (WaveNet, lambda: (r(2, 4, 20),)),
    "mha": (
        lambda: nn.MultiheadAttention(16, 4, batch_first=True, add_bias_kv=True),
        lambda: (r(2, 5, 16), r(2, 5, 16), r(2, 5, 16)),
    ),
    "conv3d": (
        lambda: nn.Sequential(
            nn.Conv3d(2, 4, 3, padding=1),
            nn.BatchNorm3d(4),
            nn.Softplus(),
            nn.MaxPool3d(2),
            nn.ConvTranspose3d(4, 2, 3, 2, 1, 1),
            nn.AdaptiveAvgPool3d(1),
        ),
        lambda: (r(2, 2, 8, 8, 8),),
    ),
}
"""A module, and what it is called with."""

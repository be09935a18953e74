"""Networks: modules with parameters, over lazy arrays.

model = nn.Sequential(nn.Linear(784, 128, activation="relu"), nn.Linear(128, 10))
model(x)                                     # lazy, inference mode, current values
model.apply(parameters, x, training=True)    # the same as a function of the parameters
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tawny.nn import initialisers as init
from tawny.nn.activations import Activation as Activation
from tawny.nn.activations import elu as elu
from tawny.nn.activations import gelu as gelu
from tawny.nn.activations import hard_sigmoid as hard_sigmoid
from tawny.nn.activations import identity as identity
from tawny.nn.activations import leaky_relu as leaky_relu
from tawny.nn.activations import log_softmax as log_softmax
from tawny.nn.activations import relu as relu
from tawny.nn.activations import relu6 as relu6
from tawny.nn.activations import selu as selu
from tawny.nn.activations import sigmoid as sigmoid
from tawny.nn.activations import silu as silu
from tawny.nn.activations import softmax as softmax
from tawny.nn.activations import softplus as softplus
from tawny.nn.activations import softsign as softsign
from tawny.nn.activations import tanh as tanh
from tawny.nn.activations import trelu as trelu
from tawny.nn.arrangement import Flatten as Flatten
from tawny.nn.arrangement import Padding1d as Padding1d
from tawny.nn.arrangement import Padding2d as Padding2d
from tawny.nn.arrangement import Padding3d as Padding3d
from tawny.nn.arrangement import Reshape as Reshape
from tawny.nn.arrangement import Slice as Slice
from tawny.nn.arrangement import UpSampling1d as UpSampling1d
from tawny.nn.arrangement import UpSampling2d as UpSampling2d
from tawny.nn.arrangement import UpSampling3d as UpSampling3d
from tawny.nn.attention import MultiHeadAttention as MultiHeadAttention
from tawny.nn.binding import Parameter as Parameter
from tawny.nn.binding import State as State
from tawny.nn.checkpoints import Checkpoint as Checkpoint
from tawny.nn.containers import Input as Input
from tawny.nn.containers import Lambda as Lambda
from tawny.nn.containers import LambdaArray as LambdaArray
from tawny.nn.containers import Sequential as Sequential
from tawny.nn.convolution import Conv1d as Conv1d
from tawny.nn.convolution import Conv2d as Conv2d
from tawny.nn.convolution import Conv3d as Conv3d
from tawny.nn.convolution import ConvTranspose1d as ConvTranspose1d
from tawny.nn.convolution import ConvTranspose2d as ConvTranspose2d
from tawny.nn.convolution import ConvTranspose3d as ConvTranspose3d
from tawny.nn.embedding import Embedding as Embedding
from tawny.nn.evaluation import accuracy as accuracy
from tawny.nn.evaluation import evaluate as evaluate
from tawny.nn.evaluation import predict as predict
from tawny.nn.flops import flops as flops
from tawny.nn.history import History as History
from tawny.nn.joining import Add as Add
from tawny.nn.joining import Average as Average
from tawny.nn.joining import Concatenate as Concatenate
from tawny.nn.joining import Dot as Dot
from tawny.nn.joining import Max as Max
from tawny.nn.joining import Mul as Mul
from tawny.nn.linear import FullyConnected as FullyConnected
from tawny.nn.linear import Linear as Linear
from tawny.nn.losses import binary_cross_entropy as binary_cross_entropy
from tawny.nn.losses import cross_entropy as cross_entropy
from tawny.nn.losses import hinge as hinge
from tawny.nn.losses import huber as huber
from tawny.nn.losses import l1 as l1
from tawny.nn.losses import l2 as l2
from tawny.nn.losses import mean_absolute as mean_absolute
from tawny.nn.losses import mean_squared as mean_squared
from tawny.nn.losses import quadratic as quadratic
from tawny.nn.losses import squared_hinge as squared_hinge
from tawny.nn.module import Module as Module
from tawny.nn.noise import AlphaDropout as AlphaDropout
from tawny.nn.noise import Dropout as Dropout
from tawny.nn.noise import GaussianDropout as GaussianDropout
from tawny.nn.noise import GaussianNoise as GaussianNoise
from tawny.nn.normalisation import BatchNorm as BatchNorm
from tawny.nn.normalisation import GroupNorm as GroupNorm
from tawny.nn.normalisation import LayerNorm as LayerNorm
from tawny.nn.pooling import AvgPool1d as AvgPool1d
from tawny.nn.pooling import AvgPool2d as AvgPool2d
from tawny.nn.pooling import AvgPool3d as AvgPool3d
from tawny.nn.pooling import GlobalAvgPool1d as GlobalAvgPool1d
from tawny.nn.pooling import GlobalAvgPool2d as GlobalAvgPool2d
from tawny.nn.pooling import GlobalAvgPool3d as GlobalAvgPool3d
from tawny.nn.pooling import GlobalMaxPool1d as GlobalMaxPool1d
from tawny.nn.pooling import GlobalMaxPool2d as GlobalMaxPool2d
from tawny.nn.pooling import GlobalMaxPool3d as GlobalMaxPool3d
from tawny.nn.pooling import MaxPool1d as MaxPool1d
from tawny.nn.pooling import MaxPool2d as MaxPool2d
from tawny.nn.pooling import MaxPool3d as MaxPool3d
from tawny.nn.recurrent import GRU as GRU
from tawny.nn.recurrent import LSTM as LSTM
from tawny.nn.recurrent import RNN as RNN
from tawny.nn.summary import Summary as Summary
from tawny.nn.summary import summary as summary
from tawny.nn.training import train as train
from tawny.nn.training import training_graph as training_graph
from tawny.nn.weights import load_keras as load_keras
from tawny.nn.weights import load_torch as load_torch

__all__ = [
    "Activation",
    "Add",
    "AlphaDropout",
    "Average",
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "BatchNorm",
    "Checkpoint",
    "Concatenate",
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "Dot",
    "Dropout",
    "Embedding",
    "Flatten",
    "FullyConnected",
    "GRU",
    "GaussianDropout",
    "GaussianNoise",
    "GlobalAvgPool1d",
    "GlobalAvgPool2d",
    "GlobalAvgPool3d",
    "GlobalMaxPool1d",
    "GlobalMaxPool2d",
    "GlobalMaxPool3d",
    "GroupNorm",
    "History",
    "Input",
    "LSTM",
    "Lambda",
    "LambdaArray",
    "LayerNorm",
    "Linear",
    "Max",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
    "Module",
    "Mul",
    "MultiHeadAttention",
    "Padding1d",
    "Padding2d",
    "Padding3d",
    "Parameter",
    "RNN",
    "Reshape",
    "Sequential",
    "Slice",
    "State",
    "Summary",
    "UpSampling1d",
    "UpSampling2d",
    "UpSampling3d",
    "accuracy",
    "binary_cross_entropy",
    "cross_entropy",
    "elu",
    "evaluate",
    "flops",
    "gelu",
    "hard_sigmoid",
    "hinge",
    "huber",
    "identity",
    "init",
    "l1",
    "l2",
    "leaky_relu",
    "load_keras",
    "load_torch",
    "log_softmax",
    "mean_absolute",
    "mean_squared",
    "predict",
    "quadratic",
    "relu",
    "relu6",
    "selu",
    "sigmoid",
    "silu",
    "softmax",
    "softplus",
    "softsign",
    "squared_hinge",
    "summary",
    "tanh",
    "train",
    "training_graph",
    "trelu",
]


def __dir__() -> list[str]:
    return list(__all__)


if not TYPE_CHECKING:  # which would take every name for one of the module

    def __getattr__(name: str) -> object:
        from tawny.nn.elsewhere import here  # noqa: PLC0415  (nobody who spells it so needs it)

        instead = here(name)
        said = "" if instead is None else f"; write {instead}"
        raise AttributeError(f"module 'tawny.nn' has no attribute {name!r}{said}", name=name)

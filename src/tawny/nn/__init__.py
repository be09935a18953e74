"""Networks: modules with parameters, over lazy arrays.

model = nn.Sequential(nn.Linear(784, 128, activation="relu"), nn.Linear(128, 10))
model(x)                                     # lazy, inference mode, current values
model.apply(parameters, x, training=True)    # the same as a function of the parameters
"""

import sys as _sys
import typing as _typing

from tawny.nn import init as init
from tawny.nn.layers.activations import Activation as Activation
from tawny.nn.layers.activations import elu as elu
from tawny.nn.layers.activations import gelu as gelu
from tawny.nn.layers.activations import hard_sigmoid as hard_sigmoid
from tawny.nn.layers.activations import identity as identity
from tawny.nn.layers.activations import leaky_relu as leaky_relu
from tawny.nn.layers.activations import log_softmax as log_softmax
from tawny.nn.layers.activations import relu as relu
from tawny.nn.layers.activations import relu6 as relu6
from tawny.nn.layers.activations import selu as selu
from tawny.nn.layers.activations import sigmoid as sigmoid
from tawny.nn.layers.activations import silu as silu
from tawny.nn.layers.activations import softmax as softmax
from tawny.nn.layers.activations import softplus as softplus
from tawny.nn.layers.activations import softsign as softsign
from tawny.nn.layers.activations import tanh as tanh
from tawny.nn.layers.activations import trelu as trelu
from tawny.nn.layers.attention import MultiHeadAttention as MultiHeadAttention
from tawny.nn.layers.containers import Input as Input
from tawny.nn.layers.containers import Lambda as Lambda
from tawny.nn.layers.containers import LambdaArray as LambdaArray
from tawny.nn.layers.containers import Sequential as Sequential
from tawny.nn.layers.convolution import Conv1d as Conv1d
from tawny.nn.layers.convolution import Conv2d as Conv2d
from tawny.nn.layers.convolution import Conv3d as Conv3d
from tawny.nn.layers.convolution import ConvTranspose1d as ConvTranspose1d
from tawny.nn.layers.convolution import ConvTranspose2d as ConvTranspose2d
from tawny.nn.layers.convolution import ConvTranspose3d as ConvTranspose3d
from tawny.nn.layers.dropout import AlphaDropout as AlphaDropout
from tawny.nn.layers.dropout import Dropout as Dropout
from tawny.nn.layers.dropout import GaussianDropout as GaussianDropout
from tawny.nn.layers.dropout import GaussianNoise as GaussianNoise
from tawny.nn.layers.embedding import Embedding as Embedding
from tawny.nn.layers.linear import FullyConnected as FullyConnected
from tawny.nn.layers.linear import Linear as Linear
from tawny.nn.layers.merge import Add as Add
from tawny.nn.layers.merge import Average as Average
from tawny.nn.layers.merge import Concatenate as Concatenate
from tawny.nn.layers.merge import Dot as Dot
from tawny.nn.layers.merge import Max as Max
from tawny.nn.layers.merge import Mul as Mul
from tawny.nn.layers.movement import Flatten as Flatten
from tawny.nn.layers.movement import Padding1d as Padding1d
from tawny.nn.layers.movement import Padding2d as Padding2d
from tawny.nn.layers.movement import Padding3d as Padding3d
from tawny.nn.layers.movement import Reshape as Reshape
from tawny.nn.layers.movement import Slice as Slice
from tawny.nn.layers.movement import UpSampling1d as UpSampling1d
from tawny.nn.layers.movement import UpSampling2d as UpSampling2d
from tawny.nn.layers.movement import UpSampling3d as UpSampling3d
from tawny.nn.layers.normalisation import BatchNorm as BatchNorm
from tawny.nn.layers.normalisation import GroupNorm as GroupNorm
from tawny.nn.layers.normalisation import LayerNorm as LayerNorm
from tawny.nn.layers.pooling import AvgPool1d as AvgPool1d
from tawny.nn.layers.pooling import AvgPool2d as AvgPool2d
from tawny.nn.layers.pooling import AvgPool3d as AvgPool3d
from tawny.nn.layers.pooling import GlobalAvgPool1d as GlobalAvgPool1d
from tawny.nn.layers.pooling import GlobalAvgPool2d as GlobalAvgPool2d
from tawny.nn.layers.pooling import GlobalAvgPool3d as GlobalAvgPool3d
from tawny.nn.layers.pooling import GlobalMaxPool1d as GlobalMaxPool1d
from tawny.nn.layers.pooling import GlobalMaxPool2d as GlobalMaxPool2d
from tawny.nn.layers.pooling import GlobalMaxPool3d as GlobalMaxPool3d
from tawny.nn.layers.pooling import MaxPool1d as MaxPool1d
from tawny.nn.layers.pooling import MaxPool2d as MaxPool2d
from tawny.nn.layers.pooling import MaxPool3d as MaxPool3d
from tawny.nn.layers.recurrent import GRU as GRU
from tawny.nn.layers.recurrent import LSTM as LSTM
from tawny.nn.layers.recurrent import RNN as RNN
from tawny.nn.layers.recurrent import Recurrent as Recurrent
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
from tawny.nn.parameters import Parameter as Parameter
from tawny.nn.parameters import State as State
from tawny.nn.summary import Summary as Summary
from tawny.nn.summary import flops as flops
from tawny.nn.summary import summary as summary
from tawny.nn.training.callbacks import History as History
from tawny.nn.training.checkpoints import Checkpoint as Checkpoint
from tawny.nn.training.evaluation import accuracy as accuracy
from tawny.nn.training.evaluation import evaluate as evaluate
from tawny.nn.training.evaluation import predict as predict
from tawny.nn.training.loop import train as train
from tawny.nn.training.loop import training_graph as training_graph
from tawny.nn.weights import load_keras as load_keras
from tawny.nn.weights import load_torch as load_torch
from tawny.public_names import export_imports as _export_imports

_export_imports(__name__, "init")

if not _typing.TYPE_CHECKING:  # which would take every name for one of the module

    def __getattr__(name: str) -> object:
        from tawny.nn.foreign_names import hint_for  # noqa: PLC0415  (no name of `nn`)

        instead = hint_for(name)
        said = "" if instead is None else f"; write {instead}"
        message = f"module {__name__!r} has no attribute {name!r}{said}"
        raise AttributeError(message, name=name, obj=_sys.modules[__name__])

"""Networks ready to use: the report's, and those it is measured with.

    model = tw.models.ResNet50(10, width=1 / 8)
    images = numpy.zeros((1, 64, 64, 3), "float32")   # (batch, rows, columns, 3)
    scores = model(images)                            # lazy, of shape (1, 10)

Building one draws no weights: they are drawn when they are first needed, or come from a file by
`model.load(path)`.
"""

from tawny.models.inception import InceptionV3 as InceptionV3
from tawny.models.mask_rcnn import MaskRCNN as MaskRCNN
from tawny.models.report import CharacterLSTM as CharacterLSTM
from tawny.models.report import Mnist as Mnist
from tawny.models.resnet import ResNet as ResNet
from tawny.models.resnet import ResNet50 as ResNet50
from tawny.models.resnet import ResNet101 as ResNet101
from tawny.models.squeezenet import SqueezeNet as SqueezeNet
from tawny.models.vgg import VGG16 as VGG16
from tawny.public_names import export_imports as _export_imports

_export_imports(__name__)

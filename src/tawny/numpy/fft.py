"""Discrete Fourier transforms: the standard's `fft`, and NumPy's transforms along two axes."""

from tawny.ops.fft import fft as fft
from tawny.ops.fft import fft2 as fft2
from tawny.ops.fft import fftfreq as fftfreq
from tawny.ops.fft import fftn as fftn
from tawny.ops.fft import fftshift as fftshift
from tawny.ops.fft import hfft as hfft
from tawny.ops.fft import ifft as ifft
from tawny.ops.fft import ifft2 as ifft2
from tawny.ops.fft import ifftn as ifftn
from tawny.ops.fft import ifftshift as ifftshift
from tawny.ops.fft import ihfft as ihfft
from tawny.ops.fft import irfft as irfft
from tawny.ops.fft import irfft2 as irfft2
from tawny.ops.fft import irfftn as irfftn
from tawny.ops.fft import rfft as rfft
from tawny.ops.fft import rfft2 as rfft2
from tawny.ops.fft import rfftfreq as rfftfreq
from tawny.ops.fft import rfftn as rfftn
from tawny.public_names import export_imports as _export_imports

_export_imports(__name__)

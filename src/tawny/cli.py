"""The command line: `tawny doctor`, `tawny bench`, `tawny view` and `tawny profile`."""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import os
import platform
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from tawny import __version__, devices
from tawny.engine.cpu import unavailable
from tawny.engine.cpu.rates import measure_rates
from tawny.engine.cpu.threads.pool import default_threads
from tawny.engine.cpu.threads.processors import processors
from tawny.engine.cpu.threads.sleeping import way_to_sleep
from tawny.engine.llvm.runtime.compiler import llvm
from tawny.engine.llvm.runtime.directory import cache_directory
from tawny.engine.llvm.runtime.host import host
from tawny.engine.protocol import Device
from tawny.graph.report import page

PACKAGE: Final = "tawny"
FILE_COMMANDS: Final = ("inspect", "run", "optimise")
NETWORKS: Final = 'InceptionV3, ResNet50, "MNIST training", "Mask R-CNN"'
"""What can be measured, as it is written in a shell."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; gives the exit status."""
    parser = argparse.ArgumentParser(prog=PACKAGE, description="Tawny, a lazy array library.")
    commands = parser.add_subparsers(dest="command", required=True)
    about = commands.add_parser("doctor", help="say what is installed, and what runs programs here")
    about.add_argument(
        "--roof", action="store_true", help="measure what the processor does at best, for a second"
    )
    bench = commands.add_parser("bench", help="measure the report's table on this machine")
    bench.add_argument("networks", nargs="*", metavar="NETWORK", help=f"{NETWORKS}; all by default")
    bench.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    bench.add_argument("--picture", type=Path, metavar="FILE", help="draw them there")
    bench.add_argument(
        "--engine", default="cpu", metavar="NAME", help="what graphs run on, as cuda or opencl"
    )
    view = commands.add_parser("view", help="show a model file: graph, memory and rewrites")
    view.add_argument(
        "file", type=Path, metavar="FILE", help="what graph.save or profile.save wrote, or ONNX"
    )
    _add_shape(view)
    view.add_argument(
        "--output", type=Path, metavar="PAGE", help="write the page there, and open no browser"
    )
    view.add_argument("--graph", action="store_true", help="the graph alone, which is not planned")
    _add_profile(commands)
    _add_file_commands(commands)
    given = parser.parse_args(arguments)
    if given.command == "profile":
        command = importlib.import_module("tawny.profile_command")
        measured: int = command.profile(given)
        return measured
    if given.command in FILE_COMMANDS:
        files = importlib.import_module("tawny.file_commands")
        answered: int = files.answer(given)
        return answered
    if given.command == "view":
        return _view(given.file, given.output, given.shape, compiled=not given.graph)
    if given.command == "bench":
        command = importlib.import_module("tawny.bench.command")
        status: int = command.bench(given.networks, given.json, given.picture, given.engine)
        return status
    try:
        for name, value in doctor(with_roof=given.roof):
            print(f"{name:<12} {value}", flush=True)
    except BrokenPipeError:  # whoever reads it has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _add_file_commands(commands: Any) -> None:
    """Let the parser know what is done with files of models."""
    inspect = commands.add_parser("inspect", help="say what a model is made of, and what it takes")
    run = commands.add_parser("run", help="run a model on arrays of files")
    less = commands.add_parser("optimise", help="write a model that computes the same with less")
    for command in (inspect, run, less):
        command.add_argument("file", type=Path, metavar="FILE", help="an ONNX or a graph file")
        _add_shape(command)
        command.add_argument("--json", action="store_true", help="say it as JSON")
    run.add_argument(
        "--input", action="append", default=[], metavar="NAME=FILE", help="x=array.npy, each input"
    )
    run.add_argument("--output", type=Path, metavar="FILE", help="write the results there: .npz")
    run.add_argument("--memory", metavar="SIZE", help="a budget, as 50MB")
    run.add_argument("--threads", type=int, metavar="COUNT", help="threads that work at once")
    run.add_argument("--engine", default="cpu", help="what runs it; cpu by default")
    run.add_argument(
        "--compare", choices=["onnxruntime", "reference"], help="compare the results with these"
    )
    less.add_argument("-o", "--output", type=Path, required=True, metavar="FILE")
    less.add_argument("--explain", action="store_true", help="say which rules were applied")


def _add_profile(commands: Any) -> None:
    """Let the parser know `profile`."""
    profile = commands.add_parser("profile", help="time every step of a graph file or a script")
    profile.add_argument("file", type=Path, metavar="FILE", help="of a model, or a Python script")
    profile.add_argument(
        "arguments", nargs=argparse.REMAINDER, metavar="ARGUMENT", help="of the script"
    )
    _add_shape(profile)
    profile.add_argument("--runs", type=int, default=20, help="of a graph file; 20 by default")
    profile.add_argument("--engine", default="cpu", help="of a graph file; cpu by default")
    profile.add_argument("--output", type=Path, metavar="PAGE", help="write the page there")
    profile.add_argument("--trace", type=Path, metavar="FILE", help="write a trace for Perfetto")
    profile.add_argument("--save", type=Path, metavar="FILE", help="write it for `tawny view`")


def _add_shape(parser: argparse.ArgumentParser) -> None:
    """Let a parser know the sizes that ONNX files leave open."""
    parser.add_argument(
        "--shape",
        action="append",
        default=[],
        metavar="NAME=SIZES",
        help="an input's shape, image=1x3x224x224, or an axis' size, batch=1",
    )


def _view(file: Path, output: Path | None, shapes: Sequence[str], *, compiled: bool) -> int:
    """Show a model file in the browser, or write the page."""
    try:
        saved = page.saved_page(file)
        if saved is not None:
            print(page.show(saved, output))
        else:
            files = importlib.import_module("tawny.onnx.model_files")
            graph = files.read_graph(file, files.read_shapes(shapes))
            print(graph.show(output, compiled=compiled))
    except (OSError, ValueError) as error:
        print(f"{PACKAGE} view: {error}", file=sys.stderr)
        return 1
    return 0


def doctor(*, with_roof: bool = False) -> Iterator[tuple[str, str]]:
    """What is installed, and what runs programs here, as pairs of name and value."""
    reason = unavailable()
    yield "versions", ", ".join(f"{n} {v}" for n, v in _versions())
    yield "processor", _processor(reason)
    if reason is None:
        yield "engine", "cpu: compiled kernels; NumPy where an operation has none"
    else:
        yield "engine", f"cpu: NumPy, since compiled code cannot be run here ({reason})"
    for device in devices():
        if device.label != "cpu":
            yield "device", _device(device)
    yield "threads", _threads()
    yield "cache", _cache()
    sizes = {name: _installed_bytes(name) for name in (PACKAGE, *_dependencies())}
    listed = ", ".join(f"{name} {_megabytes(size)}" for name, size in sizes.items())
    yield "installed", f"{_megabytes(sum(sizes.values()))}: {listed}"
    if with_roof:
        yield from _roof(reason)


def _roof(reason: str | None) -> Iterator[tuple[str, str]]:
    """What the processor does at best, on one thread and on all."""
    if reason is not None:
        yield "roof", "not measured: compiled code cannot be run here"
        return
    for threads in dict.fromkeys((1, default_threads())):
        best = measure_rates(threads)
        moved = f"copy {best.copy / 1e9:.1f} GB/s, triad {best.triad / 1e9:.1f} GB/s"
        yield (
            "roof",
            f"{threads} thread{'s' * (threads > 1)}: {best.flops32 / 1e9:.1f} GFLOP/s float32, "
            f"{best.flops64 / 1e9:.1f} float64; {moved}",
        )


def _versions() -> Iterator[tuple[str, str]]:
    yield PACKAGE, __version__
    yield "Python", platform.python_version()
    for name in _dependencies():
        try:
            yield name, importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            yield name, "missing"


def _processor(reason: str | None) -> str:
    here = f"{platform.system()} {platform.machine()}"
    if reason is not None:
        return here
    machine = host()
    version = ".".join(map(str, llvm().llvm_version_info))
    return (
        f"{here}, {machine.tune}; code for {machine.cpu}, "
        f"vectors of {machine.vector_bytes} bytes, LLVM {version}"
    )


def _device(device: Device) -> str:
    free = "" if device.free_bytes is None else f", {_megabytes(device.free_bytes)} free"
    return f"{device.label}: {device.name}, {_megabytes(device.total_bytes)}{free}"


def _threads() -> str:
    count, machine = default_threads(), processors()
    source = "one for each core to use" if count == machine.usable_cores else "TAWNY_THREADS"
    sleeping = way_to_sleep()
    alone = "; this system has no way to let them sleep: one works" if sleeping is None else ""
    return f"{count} ({source}; {machine}{alone})"


def _cache() -> str:
    directory = cache_directory()
    if directory is None:
        return "off"
    return f"{directory} ({_megabytes(_directory_bytes(directory))})"


def _dependencies() -> list[str]:
    """The packages that installing this one brings."""
    try:
        needed = importlib.metadata.requires(PACKAGE) or []
    except importlib.metadata.PackageNotFoundError:
        return []
    names = [re.match(r"[\w.-]+", text) for text in needed if "extra ==" not in text]
    return sorted(found[0] for found in names if found)


def _installed_bytes(name: str) -> int:
    """Bytes of a package on disk, with the libraries it brings."""
    found = importlib.util.find_spec(name)
    if found is None or found.origin is None:
        return 0
    home = Path(found.origin).parent
    libraries = home.parent / f"{name}.libs"
    return _directory_bytes(home) + (_directory_bytes(libraries) if libraries.is_dir() else 0)


def _directory_bytes(directory: Path) -> int:
    return sum(f.stat().st_size for f in directory.rglob("*") if f.is_file())


def _megabytes(count: int) -> str:
    return f"{count / 1e6:.1f} MB"


if __name__ == "__main__":
    sys.exit(main())

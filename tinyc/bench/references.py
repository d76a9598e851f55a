# SPDX-License-Identifier: Apache-2.0
"""Desktop runtimes that run the same model file: one Runner each, or the reason why there is none."""

from __future__ import annotations

import importlib
import importlib.util
import platform
import subprocess
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.bench.report import Computer
from tinyc.bench.timing import Once
from tinyc.ir.graph import Array
from tinyc.run.native import Library

JAX_OPSET = 14  # jaxonnxruntime lacks some operators in the form of opset 13

Feed = Sequence[Array]  # the model's inputs in order, in the shapes of the file


class UnavailableError(Exception):
    """Why a runtime cannot run the model here, in words for the user."""


@dataclass(frozen=True, slots=True)
class Runtime:
    """A runtime with the model loaded.

    infer(feed): the outputs in order; integers where the model computes integers. once(feed): a function that
    does it again, input and output transfers included. batch(feed, n): the same for n copies of the sample at
    once, None where model or runtime take only one.
    """

    kind: str
    name: str
    device: str
    software: str
    arithmetic: str
    infer: Callable[[Feed], list[Array]]
    once: Callable[[Feed], Once]
    batch: Callable[[Feed, int], Once | None]


def computer() -> Computer:
    """CPU, operating system and Python of this computer."""
    return Computer(_cpu_name(), f"{platform.system()} {platform.machine()}", platform.python_version())


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    named = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor() or platform.machine()


def generated_c(library: Library, compiler: str, arithmetic: str) -> Runtime:
    """The library itself, on one thread. Takes what the library takes, [1, ...] or without the batch axis."""

    def shaped(feed: Feed) -> list[Array]:
        return [array.reshape(port.sample_shape) for array, port in zip(feed, library.inputs, strict=True)]

    def once(feed: Feed) -> Once:
        return library.bound(*shaped(feed))

    return Runtime(
        kind="c",
        name="generated C",
        device=_cpu_name(),
        software=compiler,
        arithmetic=arithmetic,
        infer=lambda feed: list(library.run(*shaped(feed), real=False)),
        once=once,
        batch=lambda feed, size: once(feed) if size == 1 else None,
    )


def cpu_runner(model: Path, threads: int) -> Runtime:
    """onnxruntime for .onnx, LiteRT for .tflite. threads 0: as many as the runtime likes."""
    return litert(model, threads) if model.suffix == ".tflite" else onnxruntime(model, threads, "CPUExecutionProvider")


def gpu_runner(model: Path) -> Runtime:
    """The first of onnxruntime's CUDA provider, PyTorch and JAX that runs the model on a GPU. All compute in float32:
    TensorFloat-32, which a GPU may put in its place, is off."""
    if model.suffix == ".tflite":
        raise UnavailableError("a .tflite model runs on the CPU only; give the float .onnx model")
    reasons = []
    attempts: tuple[Callable[[], Runtime], ...] = (
        lambda: onnxruntime(model, 0, "CUDAExecutionProvider"),
        lambda: pytorch(model, "cuda"),
        lambda: jax(model, "gpu"),
    )
    for attempt in attempts:
        try:
            return attempt()
        except UnavailableError as error:
            reasons.append(str(error))
    raise UnavailableError(f"no GPU run: {'; '.join(reasons)}")


def onnxruntime(model: Path, threads: int, provider: str) -> Runtime:
    """A float .onnx model on onnxruntime's `provider`."""
    runtime = _module("onnxruntime")
    if provider not in runtime.get_available_providers():
        raise UnavailableError(f"onnxruntime {runtime.__version__} has no {provider}")
    options = runtime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = threads
    gpu = provider == "CUDAExecutionProvider"
    chosen = (provider, {"use_tf32": "0"}) if gpu else provider
    session = runtime.InferenceSession(str(model), options, providers=[chosen])
    if session.get_providers()[0] != provider:
        raise UnavailableError(f"onnxruntime {runtime.__version__} could not start its {provider}")
    names = [port.name for port in session.get_inputs()]

    def once(feed: Feed) -> Once:
        given = dict(zip(names, feed, strict=True))
        return lambda: session.run(None, given)

    return Runtime(
        kind="gpu" if gpu else "cpu",
        name="onnxruntime CUDA" if gpu else "onnxruntime CPU",
        device=_gpu_name() if gpu else _threaded(threads),
        software=f"onnxruntime {runtime.__version__}",
        arithmetic="float32",
        infer=lambda feed: [np.asarray(y) for y in session.run(None, dict(zip(names, feed, strict=True)))],
        once=once,
        batch=_batched(once, open_batch=_has_open_batch(model)),
    )


def litert(model: Path, threads: int) -> Runtime:
    """A .tflite model on LiteRT's default path (XNNPACK)."""
    runtime = _module("ai_edge_litert.interpreter", "pip install ai-edge-litert")

    def interpreter(batch: int) -> Any:
        engine = runtime.Interpreter(model_path=str(model), num_threads=threads or None)
        if batch > 1:
            for port in engine.get_input_details():
                engine.resize_tensor_input(port["index"], [batch, *port["shape"][1:]], strict=False)
        engine.allocate_tensors()
        return engine

    def runner(engine: Any, feed: Feed) -> Once:
        ports = list(zip(engine.get_input_details(), feed, strict=True))
        outputs = engine.get_output_details()

        def run() -> list[Array]:
            for port, array in ports:
                engine.set_tensor(port["index"], array)
            engine.invoke()
            return [engine.get_tensor(port["index"]) for port in outputs]

        return run

    single = interpreter(1)

    def feed_of(feed: Feed) -> list[Array]:
        return [x.reshape(p["shape"]) for x, p in zip(feed, single.get_input_details(), strict=True)]

    def batch(feed: Feed, size: int) -> Once | None:
        try:
            return runner(interpreter(size), [np.repeat(x, size, axis=0) for x in feed_of(feed)])
        except (RuntimeError, ValueError):  # a reshape in the model has the batch of 1 written into it
            return None

    def infer(feed: Feed) -> list[Array]:
        outputs: Any = runner(single, feed_of(feed))()
        return [np.array(y) for y in outputs]

    is_float = all(port["dtype"] is np.float32 for port in single.get_input_details())
    return Runtime(
        kind="cpu",
        name="LiteRT CPU",
        device=_threaded(threads),
        software=f"ai-edge-litert {_version('ai-edge-litert')}",
        arithmetic="float32" if is_float else "int8",
        infer=infer,
        once=lambda feed: runner(single, feed_of(feed)),
        batch=batch,
    )


def pytorch(model: Path, device: str) -> Runtime:
    """A float .onnx model in PyTorch, converted by onnx2torch. device: `cuda` or `cpu`. Switches TensorFloat-32 off
    in this process."""
    torch = _module("torch", "pip install torch")
    if device == "cuda" and not torch.cuda.is_available():
        raise UnavailableError(f"PyTorch {torch.__version__} sees no GPU")
    converter = _module("onnx2torch", "pip install onnx2torch")
    try:
        module = converter.convert(str(model)).to(device).eval()
    except Exception as error:  # whatever the converter raises for an operator that it does not know
        raise UnavailableError(f"onnx2torch cannot convert the model: {_first_line(error)}") from error
    torch.backends.cudnn.allow_tf32 = False  # matrix products have it off by default, convolutions on

    def run(feed: Feed) -> list[Array]:
        with torch.inference_mode():
            y = module(*(torch.from_numpy(np.ascontiguousarray(x)).to(device) for x in feed))
            return [part.cpu().numpy() for part in (y if isinstance(y, list | tuple) else [y])]

    def once(feed: Feed) -> Once:
        return lambda: run(feed)

    name = torch.cuda.get_device_name() if device == "cuda" else _cpu_name()
    versions = f"PyTorch {torch.__version__}, onnx2torch {_version('onnx2torch')}"
    cuda = f", CUDA {torch.version.cuda}" if device == "cuda" else ""
    kind = "gpu" if device == "cuda" else "cpu"
    batch = _batched(once, open_batch=_has_open_batch(model))
    return Runtime(kind, f"PyTorch {device.upper()}", name, versions + cuda, "float32", run, once, batch)


def jax(model: Path, platform_name: str) -> Runtime:
    """A float .onnx model in JAX, converted by jaxonnxruntime and jitted. platform_name: `gpu` or `cpu`."""
    library = _module("jax", "pip install jax")
    try:
        device = library.devices(platform_name)[0]
    except RuntimeError as error:
        raise UnavailableError(f"JAX {library.__version__} sees no {platform_name.upper()}") from error
    converter = _module("jaxonnxruntime.call_onnx", "pip install jaxonnxruntime")
    proto = _newer(_module("onnx").load(str(model)))
    constants = {initializer.name for initializer in proto.graph.initializer}
    names = [port.name for port in proto.graph.input if port.name not in constants]
    compiled: dict[tuple[int, ...], Any] = {}

    def function(feed: Feed) -> Any:
        """The model for inputs of these shapes: JAX compiles each anew."""
        key = feed[0].shape
        if key not in compiled:
            given = dict(zip(names, feed, strict=True))
            try:
                call, weights = converter.call_onnx_model(proto, given)
                jitted = library.jit(_in_float32(library, call))
                weights = library.device_put(weights, device)
                library.block_until_ready(jitted(weights, library.device_put(given, device)))
            except Exception as error:  # whatever the converter raises for an operator that it does not know
                raise UnavailableError(f"jaxonnxruntime cannot run the model: {_first_line(error)}") from error
            compiled[key] = lambda inputs: jitted(weights, inputs)
        return compiled[key]

    def run(feed: Feed) -> list[Array]:
        given = library.device_put(dict(zip(names, feed, strict=True)), device)
        return [np.asarray(part) for part in function(feed)(given)]

    def once(feed: Feed) -> Once:
        function(feed)
        return lambda: run(feed)

    run([np.zeros(_shape(port), np.float32) for port in proto.graph.input if port.name in names])
    versions = f"JAX {library.__version__}, jaxonnxruntime {_version('jaxonnxruntime')}"
    kind = "gpu" if platform_name == "gpu" else "cpu"
    batch = _batched(once, open_batch=_has_open_batch(model))
    return Runtime(kind, f"JAX {platform_name.upper()}", device.device_kind, versions, "float32", run, once, batch)


def _in_float32(library: Any, call: Callable[..., Any]) -> Callable[..., Any]:
    """The function, for JAX to compile without TensorFloat-32."""

    def precise(*arguments: Any) -> Any:
        with library.default_matmul_precision("highest"):
            return call(*arguments)

    return precise


def _batched(once: Callable[[Feed], Once], open_batch: bool) -> Callable[[Feed, int], Once | None]:
    """Runner.batch of a float .onnx model: more than one sample only where the model leaves the batch open."""

    def batch(feed: Feed, size: int) -> Once | None:
        if size == 1:
            return once(feed)
        if not open_batch:
            return None
        try:
            function = once([np.repeat(x, size, axis=0) for x in feed])
            function()
        except Exception:  # each runtime has errors of its own for a batch of 1 that is written into a reshape
            return None
        return function

    return batch


def _has_open_batch(model: Path) -> bool:
    proto = _module("onnx").load(str(model), load_external_data=False)
    constants = {initializer.name for initializer in proto.graph.initializer}
    ports = [port for port in proto.graph.input if port.name not in constants]
    return all(p.type.tensor_type.shape.dim and not p.type.tensor_type.shape.dim[0].dim_value for p in ports)


def _newer(proto: Any) -> Any:
    """The model in an opset that jaxonnxruntime has all of, if onnx can convert it."""
    if max((entry.version for entry in proto.opset_import if not entry.domain), default=0) >= JAX_OPSET:
        return proto
    try:
        return _module("onnx.version_converter").convert_version(proto, JAX_OPSET)
    except Exception:  # the converter's C++ raises RuntimeError, its own ConvertError and others
        return proto


def _shape(port: Any) -> list[int]:
    return [dim.dim_value or 1 for dim in port.type.tensor_type.shape.dim]


def _module(name: str, install: str = "") -> Any:
    """The module; UnavailableError if it is not installed, or is broken."""
    package = name.split(".", maxsplit=1)[0]
    if importlib.util.find_spec(package) is None:
        raise UnavailableError(f"{package} is not installed" + (f" ({install})" if install else ""))
    try:
        return importlib.import_module(name)
    except Exception as error:  # a package that does not fit its neighbours raises anything
        raise UnavailableError(f"{package} cannot be imported: {_first_line(error)}") from error


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "?"


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:200] if lines else type(error).__name__


def _threaded(threads: int) -> str:
    many = "1 thread" if threads == 1 else f"{threads} threads" if threads else "the runtime's choice of threads"
    return f"{_cpu_name()}, {many}"


def _gpu_name() -> str:
    command = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return "GPU"
    lines = done.stdout.strip().splitlines()
    return lines[0].replace(", ", ", driver ") if done.returncode == 0 and lines else "GPU"

"""Find and open devices."""

from __future__ import annotations

from collections.abc import Collection

from gpubench.base.arguments import shown
from gpubench.base.errors import DeviceUnavailable, UserError
from gpubench.devices.base import Device, DeviceReport

__all__ = ["Device", "DeviceReport", "missing_feature", "open_device", "survey"]

NEEDS = {
    "cuda": "needs CUDA: run with --device cuda on a machine with an NVIDIA GPU",
    "opencl": "needs OpenCL: run with --device opencl",
    "graphs": "needs CUDA graphs: run with --device cuda on a machine with an NVIDIA GPU",
}


def survey() -> list[DeviceReport]:
    """Return all devices of both backends, each with the reason if it is unusable."""
    from gpubench.devices import cuda, opencl

    return cuda.survey() + opencl.survey()


def open_device(spec: str = "auto") -> Device:
    """Open a device: `cuda`, `cuda:1`, `opencl`, `opencl:pocl`, or `auto`.

    `auto` uses CUDA if available, else OpenCL. Raises DeviceUnavailable if the device cannot be
    used, UserError for an invalid name.
    """
    from gpubench.devices import cuda, opencl

    if not isinstance(spec, str):
        raise UserError(f"device takes a name such as cuda:1, not {shown(spec)}")
    backend, _, which = spec.partition(":")
    if backend == "auto" and not which:
        try:
            return cuda.open_cuda()
        except DeviceUnavailable as no_cuda:
            try:
                return opencl.open_opencl()
            except DeviceUnavailable as no_opencl:
                raise DeviceUnavailable(f"no usable device: {no_cuda}; {no_opencl}") from None
    if backend == "cuda":
        if which and not which.isdecimal():
            raise UserError(f"no CUDA device {which!r}: name it by number, as in cuda:0")
        return cuda.open_cuda(int(which or 0))
    if backend == "opencl":
        return opencl.open_opencl(which)
    raise UserError(f"no device {spec!r}: cuda, cuda:1, opencl, opencl:NAME, or auto")


def missing_feature(requires: Collection[str], device: Device) -> str | None:
    """Return a message about a required feature that the device lacks; None if none is missing."""
    for feature in sorted(set(requires) - device.features):
        return NEEDS.get(feature, f"needs {feature}, which {device.spec} does not offer")
    return None

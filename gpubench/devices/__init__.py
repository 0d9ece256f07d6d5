"""Find and open devices."""

from __future__ import annotations

from gpubench.devices.base import Device, DeviceReport
from gpubench.errors import DeviceUnavailable, UserError

__all__ = ["Device", "DeviceReport", "open_device", "survey"]


def survey() -> list[DeviceReport]:
    """Return every device of both back ends, usable or not, with the reason where not."""
    from gpubench.devices import cuda, opencl

    return cuda.survey() + opencl.survey()


def open_device(spec: str = "auto") -> Device:
    """Open a device: `cuda`, `cuda:1`, `opencl`, `opencl:pocl`, or `auto`.

    `auto` takes CUDA where it is usable, else OpenCL. Raises DeviceUnavailable with the reason,
    UserError for a name that is none of these.
    """
    from gpubench.devices import cuda, opencl

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

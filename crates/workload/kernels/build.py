"""Makes tenants.ptx (for compute capability 7.0 and later) and burn.ptx (tensor cores, 8.0 and later) of tenants.cu.

Needs the Python packages nvidia-cuda-nvrtc-cu11 and nvidia-cuda-nvcc-cu12 (its ptxas checks the result); no GPU. PTX names the oldest
version of its language that has everything in it, so that old drivers take it too.
"""

import ctypes
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
SITE = pathlib.Path(next(path for path in sys.path if path.endswith("site-packages"))) / "nvidia"


def compiled(source: str, architecture: str, version: str) -> str:
    nvrtc = ctypes.CDLL(str(next((SITE / "cuda_nvrtc/lib").glob("libnvrtc.so.*"))))
    program = ctypes.c_void_p()
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"tenants.cu", 0, None, None)
    options = [f"--gpu-architecture={architecture}".encode(), b"--std=c++14"]
    failed = nvrtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
    size = ctypes.c_size_t()
    if failed:
        nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        nvrtc.nvrtcGetProgramLog(program, log)
        sys.exit(log.value.decode())
    nvrtc.nvrtcGetPTXSize(program, ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetPTX(program, text)
    lines = text.value.decode().splitlines()
    lines = [line for line in lines if line.strip() and not line.startswith("//")]
    return re.sub(r"\.version \S+", f".version {version}", "\n".join(lines)) + "\n"


def only(ptx: str, keep: bool) -> str:
    """The module with the kernel for tensor cores alone, or without it."""
    at = ptx.index(".visible .entry burn(") if ".visible .entry burn(" in ptx else len(ptx)
    if not keep:
        return ptx[:at]
    head = ptx[: ptx.index(".address_size 64") + len(".address_size 64")]
    return head + "\n" + ptx[at:]


def main() -> None:
    source = (HERE / "tenants.cu").read_text()
    ptxas = SITE / "cuda_nvcc/bin/ptxas"
    for name, architecture, version, keep in (("tenants", "compute_70", "6.4", False), ("burn", "compute_80", "7.0", True)):
        file = HERE / f"{name}.ptx"
        file.write_text(only(compiled(source, architecture, version), keep))
        for card in ("sm_90", "sm_80") if keep else ("sm_90", "sm_80", "sm_75"):
            out = subprocess.run([ptxas, f"--gpu-name={card}", file, "-o", "/dev/null", "-v"], capture_output=True, text=True)
            if out.returncode:
                sys.exit(out.stderr)
        print(file.name, len(file.read_text()), "bytes")


main()

"""What pip calls to build the wheel (PEP 517): CMake builds the libraries, this packs them.  No package is needed, PyTorch neither.

    pip install ./kernels/python                              # compiles the kernels with tilec (LLVM 22), then the libraries
    pip install ./kernels/python --config-settings modules=build/release/kernels      # kernels that a build has compiled: a C compiler is enough
    pip wheel ./kernels/python --config-settings cc="zig cc -target x86_64-linux-gnu.2.17"   # for older systems than this one

Paths are relative to the checkout: pip runs this elsewhere.  The wheel's tag says which glibc its libraries need.
"""
import base64
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
EXCLUDED = {"__pycache__"}


def project():
    """name, version and so on of pyproject.toml, whose lines are simple enough to be read so in Python 3.10."""
    text = (HERE / "pyproject.toml").read_text().split("[project]")[1]
    return dict(re.findall(r'^([a-z-]+) = "(.*)"$', text, re.M))


def run(*command, **kwargs):
    print("+", shlex.join(map(str, command)), flush=True)
    subprocess.run(list(map(str, command)), check=True, **kwargs)


def configure(build, **options):
    generator = ["-G", "Ninja"] if shutil.which("ninja") else []
    run("cmake", "-S", ROOT, "-B", build, *generator, "-DCMAKE_BUILD_TYPE=Release", "-DBUILD_TESTING=OFF", *(f"-D{n}={v}" for n, v in options.items()))


def compile_modules(build):
    """The folder of the kernels that tilec compiled."""
    configure(build)
    run("cmake", "--build", build, "--target", "kernel_modules", "-j", str(os.cpu_count()))
    return build / "kernels"


def compiler_options(cc):
    """CMake wants a program; one with arguments, like `zig cc -target ...`, is its program and CMAKE_C_COMPILER_ARG1."""
    if not cc:
        return {}
    program, *arguments = shlex.split(cc)
    return {"CMAKE_C_COMPILER": shutil.which(program) or program, **({"CMAKE_C_COMPILER_ARG1": " ".join(arguments)} if arguments else {})}


def build_libraries(build, prefix, modules, cc):
    configure(build, TILE_COMPILER="OFF", TILE_KERNEL_MODULES=ROOT / modules, TILE_WHEEL="ON", CMAKE_INSTALL_PREFIX=prefix, CMAKE_INSTALL_LIBDIR="lib",
              **compiler_options(cc))
    run("cmake", "--build", build, "-j", str(os.cpu_count()))
    run("cmake", "--install", build, "--strip", stdout=subprocess.DEVNULL)


def glibc(files):
    """The newest version of glibc that these ask for."""
    versions = set()
    for f in files:
        versions |= {tuple(map(int, v)) for v in re.findall(rb"GLIBC_(\d+)\.(\d+)", f.read_bytes())}
    return max(versions)


def platform_tag(files):
    machine = sysconfig.get_platform().split("-")[-1]
    major, minor = max(glibc(files), (2, 17))
    return f"manylinux_{major}_{minor}_{machine}"


def pack(folder, wheel_directory, tag):
    p = project()
    info = f"{p['name']}-{p['version']}.dist-info"
    readme = (HERE / p["readme"]).read_text()
    texts = {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {p['name']}\nVersion: {p['version']}\nSummary: {p['description']}\nLicense: {p['license']}\n"
                            f"Requires-Python: {p['requires-python']}\nDescription-Content-Type: text/markdown\n\n{readme}",
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: tilekern backend\nRoot-Is-Purelib: false\nTag: {tag}\n",
        f"{info}/LICENSE": (ROOT / "LICENSE").read_text(),
    }
    name = f"{p['name']}-{p['version']}-{tag}.whl"
    record = []

    def add(wheel, path, data, mode=0o644):
        entry = zipfile.ZipInfo(path, (2026, 1, 1, 0, 0, 0))
        entry.external_attr = (0o100000 | mode) << 16
        entry.compress_type = zipfile.ZIP_DEFLATED
        wheel.writestr(entry, data)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record.append(f"{path},sha256={digest},{len(data)}")

    with zipfile.ZipFile(Path(wheel_directory) / name, "w") as wheel:
        for f in sorted(folder.rglob("*")):
            if f.is_file() and not EXCLUDED & set(f.parts):
                add(wheel, f.relative_to(folder.parent).as_posix(), f.read_bytes(), f.stat().st_mode & 0o777)
        for path, text in texts.items():
            add(wheel, path, text.encode())
        record.append(f"{info}/RECORD,,")
        wheel.writestr(f"{info}/RECORD", "\n".join(record) + "\n")
    return name


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    settings = config_settings or {}
    with tempfile.TemporaryDirectory() as tmp:
        tmp = Path(tmp)
        build = ROOT / settings["build"] if "build" in settings else tmp / "build"
        modules = settings.get("modules") or compile_modules(build / "kernels")
        package = tmp / "stage" / "tilekern"
        shutil.copytree(HERE / "tilekern", package, ignore=shutil.ignore_patterns(*EXCLUDED))
        build_libraries(build / "libraries", package, modules, settings.get("cc"))
        files = [*(package / "lib").glob("*.so"), *(package / "bin").iterdir()]
        return pack(package, wheel_directory, f"py3-none-{platform_tag(files)}")


def get_requires_for_build_wheel(config_settings=None):
    return []


def build_sdist(sdist_directory, config_settings=None):
    raise NotImplementedError("tilekern is built from a checkout of its repository: pip install ./kernels/python")


if __name__ == "__main__":
    print(build_wheel(".", dict(a.split("=", 1) for a in sys.argv[1:])))

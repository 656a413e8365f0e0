"""What the Python packages of this tree (kernels/python, compiler/python) are built with: CMake, and the standard library alone.

Their settings: `glibc=2.17` builds for older systems than this one, `machine=aarch64` for another machine, both by the C compiler in `ziglang` (zig.cmake).
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
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXCLUDED = {"__pycache__"}
NEED_ZIG = {"glibc", "machine"}  # settings


def run(*command, **kwargs):
    print("+", shlex.join(map(str, command)), flush=True)
    subprocess.run(list(map(str, command)), check=True, env={**os.environ, "PYTHON": sys.executable}, **kwargs)


def known(settings, *own):
    """The settings, of which pip passes on whatever it is given."""
    names = ("build", *sorted(NEED_ZIG), *own)
    for name in settings or {}:
        if name not in names:
            raise ValueError(f"setting '{name}' is not one of {', '.join(names)}")
    return settings or {}


def requirements(settings):
    return ["ziglang"] if NEED_ZIG & set(settings or {}) else []


def machine(settings):
    return settings.get("machine", sysconfig.get_platform().split("-")[-1])


def configure(build, settings, **options):
    """settings: {} for programs that run here, like tilec when it compiles the kernels."""
    if NEED_ZIG & set(settings):
        options |= {"CMAKE_TOOLCHAIN_FILE": ROOT / "cmake/zig.cmake", "TILE_GLIBC": settings.get("glibc", "2.17"), "TILE_MACHINE": machine(settings)}
    generator = ["-G", "Ninja"] if shutil.which("ninja") else []
    run("cmake", "-S", ROOT, "-B", build, *generator, "-DCMAKE_BUILD_TYPE=Release", "-DBUILD_TESTING=OFF", *(f"-D{n}={v}" for n, v in options.items()))


def build(folder, *targets):
    run("cmake", "--build", folder, *(["--target", *targets] if targets else []), "-j", str(os.cpu_count()))


def glibc(files):
    """The newest version of glibc that these ask for."""
    versions = set()
    for f in files:
        versions |= {tuple(map(int, v)) for v in re.findall(rb"GLIBC_(\d+)\.(\d+)", f.read_bytes())}
    return max(versions)


def tag(files, settings):
    major, minor = max(glibc(files), (2, 17))
    return f"py3-none-manylinux_{major}_{minor}_{machine(settings)}"


def project(folder):
    """name, version and so on of pyproject.toml, whose lines are simple enough to be read so in Python 3.10."""
    text = (folder / "pyproject.toml").read_text().split("[project]")[1].split("\n[")[0]
    return dict(re.findall(r'^([a-z-]+) = "(.*)"$', text, re.M))


def entry_points(folder):
    """entry_points.txt of pyproject.toml's, whose lines are the same in both."""
    parts = re.findall(r'^\[project\.entry-points\."(.*)"\]\n((?:.+\n)*)', (folder / "pyproject.toml").read_text(), re.M)
    return "".join(f"[{group}]\n{lines}".replace('"', "") for group, lines in parts)


def pack(source, staged, wheel_directory, tag, licenses=None):
    """The wheel of the package in folder `source` with the files in `staged`; its name.  licenses: {file name: text} of what is linked in."""
    p = project(source)
    info = f"{p['name']}-{p['version']}.dist-info"
    readme = (source / p["readme"]).read_text()
    texts = {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {p['name']}\nVersion: {p['version']}\nSummary: {p['description']}\nLicense: {p['license']}\n"
                            f"Requires-Python: {p['requires-python']}\nDescription-Content-Type: text/markdown\n\n{readme}",
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: tile\nRoot-Is-Purelib: false\nTag: {tag}\n",
        f"{info}/LICENSE": (ROOT / "LICENSE").read_text(),
        **({f"{info}/entry_points.txt": entry_points(source)} if entry_points(source) else {}),
        **{f"{info}/{n}": text for n, text in (licenses or {}).items()},
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
        for f in sorted(staged.rglob("*")):
            if f.is_file() and not EXCLUDED & set(f.parts):
                add(wheel, f.relative_to(staged).as_posix(), f.read_bytes(), f.stat().st_mode & 0o777)
        for path, text in texts.items():
            add(wheel, path, text.encode())
        record.append(f"{info}/RECORD,,")
        wheel.writestr(f"{info}/RECORD", "\n".join(record) + "\n")
    return name


def settings_of(arguments):
    return dict(a.split("=", 1) for a in arguments)

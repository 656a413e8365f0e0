"""What pip calls to build the wheel (PEP 517): CMake builds the libraries, this packs them.  No package is needed, PyTorch neither.

    pip install ./kernels/python                              # compiles the kernels with tilec (LLVM 22), then the libraries
    pip install ./kernels/python --config-settings modules=build/release/kernels      # kernels that a build has compiled: a C compiler is enough
    pip wheel ./kernels/python --config-settings glibc=2.17                           # for older systems than this one, by the C compiler in `ziglang`
    pip wheel ./kernels/python --config-settings machine=aarch64                      # for aarch64, by the same

Paths are relative to the checkout: pip runs this elsewhere.  The wheel's tag says which glibc its libraries need.
"""
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "cmake"))
import wheel  # noqa: E402


def compile_modules(build):
    """The folder of the kernels that tilec compiled."""
    wheel.configure(build, {})
    wheel.build(build, "kernel_modules")
    return build / "kernels"


def build_libraries(build, prefix, modules, settings):
    wheel.configure(build, settings, TILE_COMPILER="OFF", TILE_KERNEL_MODULES=wheel.ROOT / modules, TILE_WHEEL="ON", CMAKE_INSTALL_PREFIX=prefix,
                    CMAKE_INSTALL_LIBDIR="lib")
    wheel.build(build)
    wheel.run("cmake", "--install", build, "--strip", stdout=subprocess.DEVNULL)


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    settings = wheel.known(config_settings, "modules")
    with tempfile.TemporaryDirectory() as tmp:
        tmp = Path(tmp)
        build = wheel.ROOT / settings["build"] if "build" in settings else tmp / "build"
        modules = settings.get("modules") or compile_modules(build / "kernels")
        package = tmp / "stage" / "tilekern"
        shutil.copytree(HERE / "tilekern", package, ignore=shutil.ignore_patterns(*wheel.EXCLUDED))
        build_libraries(build / "libraries", package, modules, settings)
        files = [*(package / "lib").glob("*.so"), *(package / "bin").iterdir()]
        return wheel.pack(HERE, package.parent, wheel_directory, wheel.tag(files, settings))


def get_requires_for_build_wheel(config_settings=None):
    return wheel.requirements(config_settings)


def build_sdist(sdist_directory, config_settings=None):
    raise NotImplementedError("tilekern is built from a checkout of its repository: pip install ./kernels/python")


if __name__ == "__main__":
    print(build_wheel(".", wheel.settings_of(sys.argv[1:])))

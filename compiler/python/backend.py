"""What pip calls to build the wheel of tilec and tilerun (PEP 517): README.md."""
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "cmake"))
import wheel  # noqa: E402

PROGRAMS = ("tilec", "tilerun")
LLVM_LICENSE = Path("/usr/share/doc/llvm-22-dev/copyright")


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    settings = wheel.known(config_settings)
    if wheel.machine(settings) != wheel.machine({}):
        raise ValueError(f"machine is {wheel.machine(settings)}: tilec is built with this machine's LLVM, for {wheel.machine({})}")
    with tempfile.TemporaryDirectory() as tmp:
        tmp = Path(tmp)
        build = wheel.ROOT / settings["build"] if "build" in settings else tmp / "build"
        wheel.configure(build, settings, BUILD_SHARED_LIBS="OFF", TILE_KERNELS="OFF", TILE_LLVM_STATIC="ON")
        wheel.build(build, *PROGRAMS)
        p = wheel.project(HERE)
        scripts = tmp / "stage" / f"{p['name']}-{p['version']}.data" / "scripts"
        scripts.mkdir(parents=True)
        for program in PROGRAMS:
            stripped = scripts / program
            stripped.write_bytes((build / "bin" / program).read_bytes())
            stripped.chmod(0o755)
            wheel.run("strip", stripped, stdout=subprocess.DEVNULL)
        licenses = {"LICENSE.LLVM": LLVM_LICENSE.read_text()} if LLVM_LICENSE.exists() else {}
        return wheel.pack(HERE, tmp / "stage", wheel_directory, wheel.tag(list(scripts.iterdir()), settings), licenses)


def get_requires_for_build_wheel(config_settings=None):
    return wheel.requirements(config_settings)


def build_sdist(sdist_directory, config_settings=None):
    raise NotImplementedError("tilec is built from a checkout of its repository: pip install ./compiler/python")


if __name__ == "__main__":
    print(build_wheel(".", wheel.settings_of(sys.argv[1:])))

"""python -m tilekern [--cmake-dir | --include-dir | --lib-dir | --version]"""
import sys
from pathlib import Path

HERE = Path(__file__).parent
ANSWERS = {"--cmake-dir": lambda: HERE / "lib/cmake/tile", "--include-dir": lambda: HERE / "include", "--lib-dir": lambda: HERE / "lib"}


def main():
    what = sys.argv[1:] or ["show-config"]
    if what[0] in ANSWERS:
        print(ANSWERS[what[0]]())
        return 0
    import tilekern

    if what[0] == "--version":
        print(tilekern.__version__)
    elif what[0] == "show-config":
        tilekern.show_config()
    else:
        print(__doc__, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())

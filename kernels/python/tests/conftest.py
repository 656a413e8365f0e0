import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
os.environ.setdefault("TILERT_NO_RACE_CHECK", "1")  # the kernels have tests of their own

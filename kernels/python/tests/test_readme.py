"""The lines of the READMEs for PyTorch work as they are written."""
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("path", ["README.md", "kernels/python/README.md"])
def test_lines(path):
    if not (ROOT / path).exists():
        pytest.skip("not a checkout")
    block = re.search(r"^```python\n(.*?)^```", (ROOT / path).read_text(), re.M | re.S).group(1)
    assert len(block.splitlines()) >= 5
    names = {}
    exec(compile(block, path, "exec"), names)
    o, state = names["o"], names["state"]
    assert o.shape == (1, 100, 2, 128) and o.isfinite().all() and o.any() and state.shape == (1, 2, 128, 128)

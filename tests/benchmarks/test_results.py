"""Results are written with a line for each, and are the same when they are read."""

from __future__ import annotations

import json
from pathlib import Path

from scripts.results import write_results


def test_what_fits_in_a_line_is_not_broken_up(tmp_path: Path) -> None:
    results = {
        "machine": {"cpus": 2},
        "runs": [{"number": number, "what": "x" * 90} for number in range(3)],
        "long": [{"seeds": list(range(100, 200)), "texts": ["y" * 200] * 2}],
        "none": [],
    }
    path = tmp_path / "folder" / "results.json"
    write_results(path, results)
    assert json.loads(path.read_text()) == results
    x, y, seeds = "x" * 90, "y" * 200, ", ".join(str(seed) for seed in range(100, 200))
    assert path.read_text().splitlines() == [
        "{",
        ' "machine": {"cpus": 2},',
        ' "runs": [',
        f'  {{"number": 0, "what": "{x}"}},',
        f'  {{"number": 1, "what": "{x}"}},',
        f'  {{"number": 2, "what": "{x}"}}',
        " ],",
        ' "long": [',
        "  {",
        f'   "seeds": [{seeds}],',
        '   "texts": [',
        f'    "{y}",',
        f'    "{y}"',
        "   ]",
        "  }",
        " ],",
        ' "none": []',
        "}",
    ]

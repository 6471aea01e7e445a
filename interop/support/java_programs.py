"""Java programs of the tests, compiled once for each set of jars into `.cache/classes`.

`java Program.java` compiles the program at each start, which takes longer than most programs run.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from interop.support.maven import CACHE


def compiled(source: Path, jars: Path) -> list[str]:
    """Return the end of a `java` command line: the class path, with `jars`, and the program."""
    # The jars come first: an archive of their classes is used only with the class path that it was made with.
    return ["-cp", f"{jars}/*:{compiled_classes([source], jars)}", source.stem]


def compiled_classes(sources: Sequence[Path], jars: Path) -> Path:
    """The folder with the classes of these sources, named after the first."""
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources) + str(jars).encode())
    classes = CACHE / "classes" / f"{sources[0].stem}-{digest.hexdigest()[:16]}"
    if not classes.exists():
        classes.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=classes.parent) as folder:
            made = Path(folder, "classes")
            # By its module, which does not know wildcards: not every Java that has it has `javac`.
            command = ["java", "-XX:TieredStopAtLevel=1", "-m", "jdk.compiler/com.sun.tools.javac.Main"]
            command += ["-nowarn", "-cp", ":".join(map(str, jars.glob("*.jar")))]
            command += ["-d", str(made), *map(str, sources)]
            run = subprocess.run(command, capture_output=True, text=True, check=False)
            assert run.returncode == 0, run.stdout + run.stderr
            try:
                made.rename(classes)
            except OSError:  # another run of the tests was faster
                shutil.rmtree(made)
    return classes

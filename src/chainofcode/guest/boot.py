"""The guest's first file: `python boot.py READ_FD WRITE_FD`, or `python boot.py parse`.

Loads the guest's modules without running any package.
"""

import os
import sys
import types

if __name__ == "__main__":
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    for name, path in (
        ("chainofcode", root),
        ("chainofcode.program", os.path.join(root, "program")),
        ("chainofcode.guest", os.path.join(root, "guest")),
    ):
        package = types.ModuleType(name)
        package.__path__ = [path]
        sys.modules[name] = package
    from chainofcode.guest.main import describe, main

    if sys.argv[1] == "parse":
        describe()
    else:
        main(int(sys.argv[1]), int(sys.argv[2]))

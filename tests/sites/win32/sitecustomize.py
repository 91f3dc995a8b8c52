"""Every interpreter with this directory on PYTHONPATH looks like one of `win32`."""

import os
import sys

sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
import foreign_platform

foreign_platform.become("win32", imported=os.environ.get("COC_IMPORTED", "").split())

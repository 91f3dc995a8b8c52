"""Types of values: scalars, immutable values and containers. Standard library only."""

from __future__ import annotations

import datetime
import decimal
import fractions
import re
from collections import Counter, OrderedDict, defaultdict, deque
from types import (
    ClassMethodDescriptorType,
    CodeType,
    GenericAlias,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodDescriptorType,
    WrapperDescriptorType,
)

from .records import Record

EXACT: frozenset[type] = frozenset(
    [str, int, bool, type(None)]
)  # equal values of one of these types have the same text
PLAIN = EXACT | {float}
SCALARS = PLAIN | {complex, bytes}
MOMENTS = frozenset([datetime.date, datetime.datetime, datetime.time, datetime.timedelta, datetime.timezone])
# Immutable values without mutable parts.
ATOMS = SCALARS | MOMENTS | frozenset([
    range, slice, type(Ellipsis), type(NotImplemented), decimal.Decimal, fractions.Fraction, re.Pattern, re.Match,
    CodeType, GenericAlias, GetSetDescriptorType, MemberDescriptorType, MethodDescriptorType,
    ClassMethodDescriptorType, WrapperDescriptorType,
])  # fmt: skip
SEQUENCES = frozenset([list, deque, tuple, set, frozenset])
MAPPINGS = frozenset([dict, Record, Counter, OrderedDict, defaultdict])
CONTAINERS = SEQUENCES | MAPPINGS

"""Which mood sells: a table, remarks that a model reads, a mean for each mood, and a plot."""

import io

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import pandas as pd

TABLE = """day,sold,remark
Mon,120,quiet morning
Tue,180,people were cheerful after the match
Wed,90,everyone complained about the rain
Thu,170,"a lovely, busy day"
Fri,100,grumpy customers all afternoon
"""
days = pd.read_csv(io.StringIO(TABLE))
days["mood"] = [mood_of(remark) for remark in days["remark"]]
means = days.groupby("mood")["sold"].mean().round(1)
means.plot.bar(title="sold per day, by mood", rot=0)
plt.savefig("moods.png", dpi=60)
answer = means.to_dict()

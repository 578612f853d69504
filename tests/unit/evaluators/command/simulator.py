"""A simulator as others write them: reads a design, writes files, misbehaves where x says so."""

import json
import os
import signal
import sys
import time
from pathlib import Path

request = json.loads(Path(sys.argv[1]).read_text())
x, y = request["design"]["x"], request["design"]["y"]
latency = request["workload"]["scale"] / (1 + x)
print("simulating", x, y, "\x1b[31m")
result = {"time": {"latency": f"{latency * 1e3!r} ms"}, "energy": [0, {"total": x * 2.0 + y}]}
text = json.dumps(result)
if x == 20:
    print("first line", "the license server is away", sep="\n", file=sys.stderr)
    sys.exit(2)
elif x == 21:
    os.kill(os.getpid(), signal.SIGSEGV)
elif x == 22:
    text = '{"time": {'
elif x == 23:
    text = text.replace(f'"{latency * 1e3!r} ms"', "NaN")
elif x == 24:
    text = text.replace(" ms", " W")
elif x == 25:
    text = text.replace(f'"{latency * 1e3!r} ms"', '"quick"')
elif x == 26:
    while True:
        print("a" * 1_000_000)
elif x == 27:
    text = "{}"
elif x == 28:
    print("does not fit", file=sys.stderr)
    sys.exit(4)
elif x == 29:
    time.sleep(600)
Path("result.json").write_text(text)
Path("report.csv").write_text(f"Layer, Total Cycles,\nfirst, 1,\nall, {100 * y + x},\n")
print(f"power: {x + y} W")

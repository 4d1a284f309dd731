"""Compare methods and code lengths on the bundled sample, and print a table."""

import ddsh

LENGTHS = (12, 32)
METHODS = {"LSH": ddsh.LSH, "ITQ": ddsh.ITQ, "SDH": ddsh.SDH}

print("method  " + "".join(f"{n_bits:>3d} bits" for n_bits in LENGTHS))
for name, method in METHODS.items():
    results = [ddsh.evaluate(method(n_bits), "sample") for n_bits in LENGTHS]
    print(f"{name:6}  " + "".join(f"{result.scores.map:8.3f}" for result in results))

"""Score random projections on the bundled sample, and see how much the order of ties decides."""

import ddsh

for n_bits in (12, 48):
    result = ddsh.evaluate(ddsh.LSH(n_bits), "sample")
    scores = result.scores
    print(f"{n_bits} bits: MAP {scores.map:.4f}, between {scores.map_low:.4f} and {scores.map_high:.4f}")
    print(f"split {result.split[:12]}, precision at 100: {scores.precision_at[100]:.4f}")

"""Hash the bundled sample with random projections, and see how much the order of ties decides."""

from ddsh import LSH, evaluate, load
from ddsh.datasets import get_protocol

sample = load("sample")
for n_bits in (12, 48):
    result = evaluate(LSH(n_bits), sample, get_protocol("sample"), seed=0)
    scores = result.scores
    print(f"{n_bits} bits: MAP {scores.map:.4f}, between {scores.map_low:.4f} and {scores.map_high:.4f}")
    print(f"split {result.split[:12]}, precision at 100: {scores.precision_at[100]:.4f}")

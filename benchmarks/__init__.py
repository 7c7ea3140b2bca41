"""Performance claims, measured side by side in one run and given as ratios: `python -m benchmarks`."""

"""Placement: an offset in one arena for each storage.

Storages are rectangles, lifetime by bytes, and the arena is at least as high as the most bytes that
are live at once.  `place` tries the methods in turn until that bound is met:

- `sweep`: outward from the fullest moment, each buffer in the smallest gap that holds it.
- `skyline`: always the lowest line, with the best buffer that lies within it.
- `gap_search`: in the order of time, with several layouts side by side.
- `beam`: by growing offsets, with many partial placements side by side, or depth first.
"""

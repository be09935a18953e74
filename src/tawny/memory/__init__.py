"""Memory planning: order, in-place reuse, placement and recomputation, before anything runs.

Pure combinatorics over a `Problem`; knows nothing of arrays, ops or engines.  From the bottom up:

- `problem`, `inplace`, `schedule`: what is planned, what may be overwritten, what that occupies.
- `ordering`: orders of the steps with a small peak.
- `placement`: offsets in one arena, near the most bytes that are live at once.
- `blocks`: the report's Algorithm 1, which shares blocks in place of offsets.
- `plan`: order, in-place writing and offsets in one `ArenaLayout`.
- `recompute`: schedules that drop values and make them again, for less memory.
- `budget`: the cheapest layout within a number of bytes.
"""

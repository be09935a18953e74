"""Rules, a chapter each: for a node, the native kernel that computes it and its numbers."""

"""The search for steps that need less memory when they are computed in bands of rows."""

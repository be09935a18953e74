"""The threads that run compiled code: the pool, how it sleeps, where it runs, how it is stopped."""

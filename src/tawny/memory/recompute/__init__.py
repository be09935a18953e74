"""Recomputation: schedules that need less memory because they make some values twice.

A value that is dropped frees its bytes until it is made again; what that costs is the seconds of
the steps that run again.  For a budget of bytes the cheapest schedule is sought whose arena fits.
Four ideas work together:

1. *Eviction* (`eviction`).  Walk an order once inside a limit of live bytes.  Where the next step
   does not fit, drop the value with the least score: seconds to make it again, over bytes and
   time until it is used.  Where a step reads what was dropped, run again what made it.  This
   works on any graph; several scores are tried since none is best everywhere.
2. *Checkpoints* (`checkpoints`).  A training step runs forward and comes back through the same
   stages.  Cut where little is live, it is a chain, and dynamic programming finds which stages'
   operands to hold for every number of bytes: the optimum on a chain.
3. *Relaxation* (`relax`).  A sequence found for a low limit repeats more than a higher limit
   asks for.  Repetitions are taken back one after the other, most seconds per byte first, as the
   limit rises.  So one sequence yields a schedule for each limit above its own, and more memory
   never costs more time.
4. *Levels* (`search`).  What fits is decided by the arena, which is known only after placement
   and lies a little above the live bytes.  So the limits are fixed levels of live bytes: each
   method starts on each of a few orders from the levels under the budget, and of all that is laid
   out (`layout`) the cheapest that fits is the answer.  It depends on the problem and the budget
   alone, not on what was asked before.

`tables` is a problem as all of these read it: by steps, and by roots (values with own memory).
"""

"""What a terminal shows.

In: plans, states, events, tables. Out: what rich prints; lines of JSON for other programs.
"""

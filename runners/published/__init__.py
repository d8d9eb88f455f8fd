"""Published runs as experiments: a row of a table of measurements becomes a config like that of a point of a sweep.

``rows`` reads the tables, ``sources`` what a row does not say and its source does, ``replay`` makes configs of both,
and ``plan`` points of a sweep of these.
"""

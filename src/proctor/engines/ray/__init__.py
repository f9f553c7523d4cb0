"""The engine on a Ray cluster: `--engine ray`.

In: an iterator of planned trials and what opens their worker in another process. Out: trials, passed to the
writer. Start with `engine.py`, which hands out shards and stores what comes back. `shards.py` cuts trials
into shards, `processes.py` is what runs in processes of Ray, `messages.py` what is sent, and `cluster.py`
connects.
Nothing of Ray is imported before a cluster is needed.
"""

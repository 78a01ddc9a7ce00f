"""Traces as JSON, column by column, and back.

The same form travels to the browser a step at a time and lies in saved files. Reading trusts
nothing: a damaged or hostile file ends in a `TraceError`, never in another exception.

    step = {"tokens": [5, 7, 9], "parents": [null, 0, 0], "verdicts": "oax",
            "draft": [null, 0.61, 0.2], "target": […], "accept": […], "draw": […],
            "path": [0, 1], "bonus": 11, "text": [" a", " b"], "stop": null, "notice": null,
            "draft_ms": 4.1, "verify_ms": 60.2, "commit_ms": 0.8}
    prefill = {"prompt_tokens": 31, "token": 5, "text": ["The"], "prefill_ms": 180.0, "stop": null}

A verdict is one letter: o root, a accepted, x refused, - not reached.
"""

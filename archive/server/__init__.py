"""A store over HTTP: logs in, explained logs out; companions by their ids.

In flow requests, through ASGI. The process that speaks HTTP reads bodies, keeps bounds and counts; what
strangers send is parsed, matched and explained in processes that can be killed. Needs the extra ``server``.
"""

"""Two files → whether they are one model, and what differs.

``diff`` lists each change, ``digest`` gives one value a model; both ask ``sameness`` which records are the
model's.
"""

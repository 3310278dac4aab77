"""What ExecuTorch's runtime noted of its runs → calls of instructions, and what the ETRecord says of them.

``runs`` makes calls of instructions of an ETDump's events; ``noted`` has the values that each returned.
``recorded`` finds the method that ran and the nodes of its instructions in an ETRecord, and refuses a run of
another program; ``xnnpack_notes`` is what XNNPACK notes of its products.
"""

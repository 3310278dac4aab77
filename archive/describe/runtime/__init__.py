"""What ExecuTorch's runtime noted of its runs → a profile, at the model's source with the ETRecord.

``runs`` makes calls of instructions of an ETDump's events. ``recorded`` finds the method that ran and the
nodes of its instructions in an ETRecord, and refuses a run of another program. ``profile`` adds up the times.
"""

"""What ExecuTorch's runtime noted of its runs → a profile, at the model's source with the ETRecord.

``profile`` adds up the times; ``blocks`` counts what an ETDump has.
"""

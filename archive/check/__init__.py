"""An archive → what is wrong with it: inconsistencies (``verify``), what PyTorch refuses (``loading``)."""

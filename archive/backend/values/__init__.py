"""Runs a model and notes the values of each of its operations, at the model's source.

In: a model in any form, and inputs. Out: :class:`Run`. ``observing`` sees every operator's tensors by PyTorch's
dispatcher, with autograd off: operators such as ``linear`` then arrive whole. What differs between forms is
only how an operation's place is known: ``scripts`` (TorchScript, lite), ``programs`` (``torch.export``),
``eager``. ``inputs`` reads what a model is run with; ``comparing`` is two runs side by side. Needs PyTorch, and
runs the model.
"""

"""Runs a model and notes the values of each of its operations, at the model's source.

In: a model in any form, and inputs. Out: a ``Run``. Needs PyTorch, and runs the model.

``observing`` sees every operator's tensors by PyTorch's dispatcher, with autograd off: operators such as
``linear`` then arrive whole. Forms differ only in how an operation's place is known: ``scripts``
(TorchScript, lite), ``programs`` (``torch.export``), ``eager``; ``compiled`` notes only what a model of
AOTInductor returns. ``etrecords`` loads ExecuTorch's programs, and ``devices`` reads values that its runtime
noted. ``inputs`` reads what a model is run with; ``running`` is all of it; ``comparing`` puts two runs side
by side, and ``beginning`` finds where they part; ``masks`` says what attention hides.
"""

"""The tensors that an archive describes: name, dtype, shape, strides, and the record that holds their bytes.

In: inert values of pickles (``script``), tables of weights as JSON (``exported``). Out: a ``Tensor`` per name
(``tensor``); its elements as bytes, in logical order and little-endian (``elements``): views of the storage
if they are in that order.

What ``torch.save`` wrote is described by :mod:`archive.reader.recognition.saved`, as ``Tensor``, too.
"""

"""Files of tensors that aren't zips: safetensors, GGUF, ONNX, and ``torch.save`` before PyTorch 1.6.

In: the bytes of a file, of which a reader only reads the header, so a remote file is not copied. Out: a
:class:`~archive.formats.tensor_files.described.TensorFile`: its records, its tensors by name, its metadata.
``hugging_face`` is the index of a model in several files.
"""

GGUF_MAGIC = b"GGUF"
LEGACY_MAGIC = 0x1950A86A20F9469CFC6C
"""``torch.serialization.MAGIC_NUMBER``, the first pickle of what ``torch.save`` wrote before PyTorch 1.6."""

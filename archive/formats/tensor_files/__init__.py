"""Files of tensors that aren't zips: safetensors, GGUF, ONNX, and ``torch.save`` before PyTorch 1.6.

In: the bytes of a file, of which a reader only reads the header, so a remote file is not copied. Out: a
:class:`~archive.formats.tensor_files.described.TensorFile`: its records, its tensors by name, its metadata.
``hugging_face`` is the index of a model in several files.
"""

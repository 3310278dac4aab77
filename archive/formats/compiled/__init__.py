"""Models that AOTInductor compiled: what leads from their kernels and C++ code back to the model's source.

In: records of ``data/aotinductor/NAME/``. Out: :class:`~archive.formats.compiled.kernels.Kernel` and
:class:`~archive.formats.compiled.code.CppCode`.
"""

"""Profiles runs in stock PyTorch: its own events are led to the model's source by an archive's debug info.

In: an archive, and inputs. Out: a :class:`~archive.debuginfo.profiles.profile.Profile` of runs in the lite
interpreter or in TorchScript. ``running`` runs the archive under ``torch.profiler``, picks the operations and
the allocator's events, and finds the debug handle of each operation of the lite interpreter. ``places`` finds
the module and the line of each position in generated code.
"""

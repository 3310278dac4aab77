"""A log in which PyTorch failed without debug records → the log as it would be with them.

The life of a line, in the order of files:

1. `log/`: bytes become lines; `log/quiet` passes those in which no failure can begin, almost all: they have
   none of the words of `log/marks`. Loggers and container runtimes put a prefix before each line, or make it
   a JSON record. A failure's lines are those of one *stream*, its process's part of the log, whatever lines
   of others stand between them; `log/beginnings` finds it; `log/documents` knows what holds it, whose escapes
   its explanation keeps, as `log/encodings` writes them. `printed` has the lines that PyTorch prints.
2. `kinds` is the table of kinds; it makes a `failure` of a line: `lite` (debug handles), `unplaced` (without
   any), `traceback_failures` (of TorchScript), `nodes` (of ``torch.fx.Interpreter``), `eval_frames` (of
   generated code), `guards` (of what calls of programs check), `kernels` (of AOTInductor), `instructions` and
   `inputs` (of ExecuTorch). Each file says what such a failure looks like, where it ends, and how a model
   answers it.
3. A candidate answers: one model (`answers`), or each of the models that may have failed
   (`models/candidates`); what kinds make of a model is kept with it (`one_model`). `handles` splits debug
   handles that PyTorch printed without a separator, and `messages` rules out those whose operator cannot
   print the message above. `tracebacks` reads a traceback, and `code_records` compares it with the model's
   code; `shown_source` compares source that the log has already. `redacted` and `redacted_answers` are for
   what PyTorch prints of redacted archives.
4. `explainer` runs all this and writes the text, with what a logger put around the line; a JSON string
   that holds a whole failure is explained inside.
5. In an application, `app/explaining` is asked about errors and events, by its own code or by `app/install`.

All other bytes pass through unchanged, and so do failures that no model can explain. A log in UTF-16 stays
in UTF-16, and a gzipped one is unpacked. What may be a whole failure is written once the log pauses.
"""

"""A node of an exported program → the line of the model that made it, and the modules around it."""

import archive

with archive.open("fixtures/exported/choice_strict.pt2") as exported:
    site = exported.programs["model"].sites["cond.true_graph_0/cond.false_graph_0/embedding"]
    print(site.target)
    for frame in site.frames.frames:
        print(f"{frame.file}:{frame.line}, in {frame.function}: {frame.code}")
    print(" > ".join(module.class_name for module in site.modules))

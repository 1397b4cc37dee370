"""Plots in a real kernel."""

import nbclient
import nbformat

CELLS = (
    "import rarefeat\n"
    "encoder = rarefeat.train(T=12, N=256, d1=20, K=16, kernel='torch', progress=False)",
    "encoder.plot()",
    "encoder.plot()",
    "import matplotlib.pyplot as plt\nplt.plot([1, 2])",
    "from IPython.core.completer import provisionalcompleter\n"
    "text = 'rarefeat.train_learners(attention_s'\n"
    "with provisionalcompleter():\n"
    "    print([one.text for one in get_ipython().Completer.completions(text, len(text))])",
)


def test_every_plot_of_a_fresh_kernel_is_shown_and_keys_complete():
    cells = [nbformat.v4.new_code_cell(text) for text in CELLS]
    notebook = nbformat.v4.new_notebook(cells=cells)
    nbclient.NotebookClient(notebook, timeout=100, kernel_name="python3").execute()
    pictures = [sum("image/png" in one.get("data", {}) for one in cell.outputs) for cell in cells]
    assert pictures == [0, 1, 1, 1, 0]
    assert "attention_scale=" in cells[-1].outputs[0]["text"]

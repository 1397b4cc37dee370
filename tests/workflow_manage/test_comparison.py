"""`rarefeat compare`: two results beside each other."""

from click.testing import CliRunner

from rarefeat.workflow.cli import main


def write_results(folder, config, *figures):
    (folder / "figures").mkdir(parents=True)
    (folder / "config.yaml").write_text(config)
    for name in figures:
        (folder / f"figures/{name}.png").write_bytes(b"picture")


def test_keys_that_differ_and_figures_of_both_are_shown(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    one = "results: results\ntraining: {eta: 0.1, T: 500}\narms: [{arm: dense}, {arm: ideal}]\n"
    other = (
        "results: results\nname: fast\ntraining: {eta: 0.2, T: 500, m: 9}\narms: [{arm: dense}]\n"
    )
    write_results(tmp_path / "results/slow", one, "figure1", "figure2")
    write_results(tmp_path / "results/fast", other, "figure2", "figure3")
    result = CliRunner().invoke(main, ["compare", "results/slow", "fast"])
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert "training.eta: 0.1 | 0.2" in lines
    assert "training.m: - | 9" in lines
    assert not any(line.startswith(("results", "name", "training.T")) for line in lines)
    page = (tmp_path / "results/fast/beside_slow.html").read_text()
    assert page.count("<img") == 2
    assert 'src="../slow/figures/figure2.png"' in page
    assert "<td>training.eta</td><td>0.1</td><td>0.2</td>" in page


def test_name_without_results_is_one_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, ["compare", "a", "b"])
    assert result.exit_code == 1
    assert "a: neither it nor results/a holds the results of a run" in result.output

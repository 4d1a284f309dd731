"""Crash safety: after kill -9 at random moments, the folder is complete."""

from kill_while_writing import BATCH, kill_often


def test_a_folder_is_whole_after_kills_while_adding_removing_and_upgrading(tmp_path):
    outcomes = kill_often(10, tmp_path, seed=3)
    assert {outcome.job for outcome in outcomes} == {"add", "remove", "upgrade"}
    for outcome in outcomes:
        if outcome.job == "upgrade":
            assert outcome.after == outcome.before
        elif outcome.job == "remove":
            assert outcome.after in (outcome.before, 100)
        else:
            assert outcome.after >= outcome.before
            assert (outcome.after - outcome.before) % BATCH in (0, (640 - outcome.before) % BATCH)

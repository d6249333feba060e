"""lm-eval's two tasks of this folder, on any of its models; used by tests/e2e/lmeval.py and tools/make-lmeval-results."""

import os
import pathlib

HERE = pathlib.Path(__file__).resolve().parent
TASKS = ("braid_likelihood", "braid_generation")


def answers(sample):
    """The model's answer to one question: log-probabilities of the choices, or a text."""
    return [r[0] if isinstance(r, (list, tuple)) else r for r in sample["filtered_resps"]]


def evaluate(model, arguments, batch_size=1):
    import lm_eval
    from lm_eval.tasks import TaskManager

    before = os.getcwd()
    os.chdir(HERE)  # the tasks name their data relative to it
    try:
        manager = TaskManager(include_path=str(HERE), include_defaults=False)
        done = lm_eval.simple_evaluate(
            model=model, model_args=arguments, tasks=list(TASKS), task_manager=manager, batch_size=batch_size, log_samples=True, bootstrap_iters=0
        )
    finally:
        os.chdir(before)
    metrics = {
        f"{task}/{name.split(',')[0]}": value
        for task in TASKS
        for name, value in done["results"][task].items()
        if isinstance(value, float) and "stderr" not in name
    }
    samples = {task: [answers(s) for s in sorted(done["samples"][task], key=lambda s: s["doc_id"])] for task in TASKS}
    return {"metrics": metrics, "samples": samples}

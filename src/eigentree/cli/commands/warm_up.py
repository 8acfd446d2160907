"""``eigentree warm-up``: compile all kernels now, so that no later call waits for it."""

import sys
import time

__all__ = ["warm_up"]


def warm_up() -> None:
    """Compile all kernels now and keep them on disk, so that no later call waits for it.

    Examples
    --------
      eigentree warm-up
    """
    from eigentree.core.compiling import announced
    from eigentree.estimators.precompile import STEPS, warm_up
    from eigentree.progress import progress

    start = time.perf_counter()
    # Else each kernel would be announced for itself.
    with announced, progress("compiling", STEPS, visible=sys.stderr.isatty()) as show_progress:
        for done, step in enumerate(warm_up(), 1):
            show_progress(done, f"{done}/{STEPS} {step}")
    print(f"all kernels are compiled, {time.perf_counter() - start:.0f} s")

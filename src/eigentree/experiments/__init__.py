"""The paper's experiments (section 9), behind ``eigentree reproduce fig3`` and ``eigentree reproduce fig4``."""

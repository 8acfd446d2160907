"""The paper's experiments (section 9) as commands: ``eigentree reproduce fig3`` and ``eigentree reproduce fig4``."""

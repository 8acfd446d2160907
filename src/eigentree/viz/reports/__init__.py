"""Reports of models as pages: facts first, then how they look."""

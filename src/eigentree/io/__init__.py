"""Files: tables, model files, documents."""

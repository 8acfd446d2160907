"""Where EM starts: initialisers for trees of tables and for hidden chains."""

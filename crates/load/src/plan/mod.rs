//! A plan: the YAML file that says what to run.

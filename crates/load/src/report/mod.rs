//! What is left of a run: text, JSON, HTML, and comparison with an earlier one.

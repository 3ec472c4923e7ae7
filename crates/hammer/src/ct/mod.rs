//! Certificate Transparency logs: writing, reading, verifying.

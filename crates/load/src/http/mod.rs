//! HTTP requests, with what each phase of them took.

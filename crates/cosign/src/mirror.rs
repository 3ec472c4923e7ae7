//! Mirrors of logs (C2SP tlog-mirror, main of 2026-07-22).

pub mod upload;

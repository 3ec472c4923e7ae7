//! Load tests by several processes: a leader, and agents that each offer a part of the load.
//!
//! ```text
//! lead:  plan → Bundle ─────────────┐           ┌→ merge → thresholds → reports
//! link:  TLS, proofs of the key ────┤→ frames ──┤
//! agent: unpack → Run of a part ────┘           └→ a summary each second
//! ```

pub(super) mod agent;
mod bundle;
mod key;
pub(super) mod lead;
mod leader;
mod link;
mod message;
mod tls;

#[cfg(test)]
mod tests;

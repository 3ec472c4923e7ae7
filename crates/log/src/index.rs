//! The dedup index: the place of each entry of the log by its identity.
//!
//! ```text
//! data tiles → catchup ─┐
//!                       ├→ dedup → lookups of submissions
//! new rounds ───────────┘
//! ```
//!
//! When the log opens, `catchup` adds the entries that the index lacks: the `backlog`. `log_index`
//! has the parts of a log that `catchup` needs. Entries of a damaged or missing tile are
//! `unreadable_entries`. `evidence` reads an index without its log. `thread_priority` gives
//! background threads a low priority.

pub(crate) mod backlog;
pub(crate) mod catchup;
pub(crate) mod dedup;
pub(crate) mod evidence;
pub(crate) mod log_index;
pub(crate) mod thread_priority;
pub(crate) mod unreadable_entries;

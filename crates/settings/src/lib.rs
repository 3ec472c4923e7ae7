//! Strict YAML: every key known, every problem with its line, all of them at
//! once.
//!
//! A file is read into a [`tree`] whose nodes know their lines. [`Section`]s
//! and [`Reader`]s take it apart key by key and write what is wrong into a
//! [`Report`] instead of stopping; [`typed`] does the same for a type that
//! derives `Deserialize`.

pub mod environment;
mod keys;
mod report;
mod section;
pub mod tree;
pub mod typed;
pub mod values;

pub use keys::{nearest, unknown};
pub use report::{Finding, Report, Severity};
pub use section::{Located, Reader, Section, join};
pub use tree::{Node, Value};

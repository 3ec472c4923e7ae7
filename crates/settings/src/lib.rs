//! Strict YAML: every key must be known, and all problems are reported at once, each with its line.
//!
//! A file is parsed into a [`tree`] whose nodes have line numbers. [`Section`]s and [`Reader`]s
//! read the tree key by key, and add problems to a [`Report`] instead of stopping. [`typed`] does
//! the same for a type that derives `Deserialize`.
//!
//! ```text
//! YAML → tree → Section → Reader → values → settings
//!         ↑        │         │        │
//!   environment    └─────────┴────────┴→ Report
//! ```
//!
//! | item | contents |
//! |---|---|
//! | [`environment`] | references to environment variables in values |
//! | [`tree`], [`Node`], [`Value`] | a YAML document whose nodes have line numbers |
//! | [`Section`], [`Reader`], [`Located`] | one map of a file, read key by key |
//! | [`Key`], [`Table`], [`form`] | definitions of keys: name, form, default, documentation |
//! | [`section!`] | the declaration of the keys of a section |
//! | [`typed`] | a map that is read into a type with `Deserialize` |
//! | [`values`] | parsers of single values |
//! | [`Report`], [`Finding`], [`Severity`] | all problems and warnings, in file order |
//! | [`nearest`], [`unknown`] | messages about unknown keys |
//! | [`read_text`], [`read_bounded`] | the text of a file, the bytes of a file |

mod deserializer;
pub mod environment;
pub mod form;
mod key;
mod quantity;
mod report;
mod section;
mod section_macro;
mod text_file;
pub mod tree;
pub mod typed;
pub mod values;

pub use key::{About, AnyKey, Key, Table, nearest, unknown};
pub use report::{Finding, Report, Severity, flag_of};
pub use section::{Located, Reader, Section, join};
pub use section_macro::{Field, default_of};
pub use text_file::{read_bounded, read_text};
pub use tree::{Node, Value};

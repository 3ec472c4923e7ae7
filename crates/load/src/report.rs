//! Reports of a run: text, HTML, and comparison with an earlier run.
//!
//! All reports are pure functions of a [`Summary`](crate::Summary). A report can therefore be
//! created later from `summary.json`, or from several merged summaries.

pub mod baseline;
pub mod format;
#[cfg(feature = "html")]
mod html;
mod matrix;
mod statistics;
mod tags;
mod text;
pub(crate) mod threshold;
mod vegeta;

#[cfg(feature = "html")]
pub use html::html;
pub use text::text;
pub use vegeta::vegeta;

#[cfg(test)]
pub(crate) mod sample;

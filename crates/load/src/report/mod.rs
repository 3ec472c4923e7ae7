//! The reports of a run: text, HTML, and comparison with an earlier one.
//!
//! Everything here is a pure function of a [`Summary`](crate::Summary): what is printed now
//! can be printed from `summary.json` later, or of several that were merged.

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

//! DER (ITU-T X.690): a tolerant reader, and a writer that can also write forms that DER forbids.

mod length;
mod reader;
pub mod tag;
mod writer;

pub use length::push_header;
pub use reader::{DerError, Problem, Reader, Tlv};
pub use writer::{Der, Lengths};

//! Tests of certificates and chains by the rules of a log.
#![allow(clippy::unwrap_used)]

mod algorithms;
mod bodies;
mod chains;
mod corpus;
mod embedded;
mod lint;
mod minting;
mod precertificates;
mod properties;
mod rewrapping;
mod roots;
mod unsigned;

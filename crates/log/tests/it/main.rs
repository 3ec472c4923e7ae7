//! A whole log: operation, crashes, and refusals.
#![allow(clippy::unwrap_used)]

mod crash;
mod first_read;
mod fixture;
mod instances;
mod journal;
mod life;
mod mirrors;
mod objects;
mod overload;
mod power;
mod refuse;
mod restore;
mod scrub;
mod turn;
mod witnesses;

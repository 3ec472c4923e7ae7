//! A whole log: its life, its deaths, and what it refuses to do.
#![allow(clippy::unwrap_used)]

mod crash;
mod fixture;
mod instances;
mod life;
mod objects;
mod overload;
mod power;
mod refuse;
mod restore;
mod scrub;
mod turn;

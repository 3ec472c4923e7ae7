//! `lucarne lock`: what an operator does with the lock.

pub(crate) mod rebuild;
pub(crate) mod show;

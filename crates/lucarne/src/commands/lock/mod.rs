//! `lucarne lock`: what an operator does with the lock.

mod never_published;
pub(crate) mod rebuild;
pub(crate) mod show;

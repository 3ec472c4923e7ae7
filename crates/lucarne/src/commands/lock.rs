//! `lucarne lock`: inspection and recovery of the lock.

pub(crate) mod copy;
mod never_published;
pub(crate) mod options;
mod outside;
pub(crate) mod rebuild;
pub(crate) mod show;

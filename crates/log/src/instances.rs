//! Several instances of one log: one instance leads, the others follow.
//!
//! A follower (`follow`) reads the published files, and forwards its submissions (`forward`) to the
//! leader through a messenger. If `lease_watch` detects a silent leader, the follower takes the
//! lead.

pub(crate) mod follow;
pub(crate) mod forward;
pub(crate) mod lease_watch;

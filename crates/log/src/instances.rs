//! Several instances of one log: one instance leads, the others follow.
//!
//! A follower (`follow`) reads the published files, and forwards its submissions (`forward`) to the
//! leader through a messenger. If `lease_watch` detects a silent leader, the follower takes the
//! lead, unless `leader_clock` finds that its clock differs. `newest` reads the published
//! checkpoint for readers, before a follower responds with an older state than another instance has
//! shown.

pub(crate) mod follow;
pub(crate) mod forward;
pub(crate) mod leader_clock;
pub(crate) mod lease_watch;
pub(crate) mod newest;
